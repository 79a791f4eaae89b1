"""The one Kubernetes client.

From the bottom up: `config` finds the API server, `transport` sends bytes within bounds, `client` knows the verbs,
`reflector` follows a selection of objects for ever, `lease` decides who may act.
"""
