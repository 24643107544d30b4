"""Registries of a pipeline's packages: each is one class in a file here (contract: `chaos.install.packages`)."""

from chaos.install.registries.go import GoModules
from chaos.install.registries.maven import MavenCentral
from chaos.install.registries.npm import Npm
from chaos.install.registries.pypi import PyPI

__all__ = ["GoModules", "MavenCentral", "Npm", "PyPI"]
