"""`chaos audit tables`: compare any two tables, or a table and a topic, with `verifiers.audit`.

addresses     what stands behind ``--source`` and ``--sink``: one class for each kind of table
connectors    the jars that Spark needs for a kind
command       the options, the session, and what the report says
"""
