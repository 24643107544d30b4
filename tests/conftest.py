"""How long an example takes is the point of no test: on a busy machine, hypothesis' own limit of 0.2 s fails sound ones."""

from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
