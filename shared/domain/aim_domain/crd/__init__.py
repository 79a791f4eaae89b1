"""CRD manifests, made from the models (CC-012).

`structure` turns a model into a structural schema, `descriptions` takes the texts from the docstrings of the models,
`definitions` holds what a type cannot say (printer columns, scale), `manifests` puts it together and compares with
what is checked in.
"""

from aim_domain.crd.manifests import definition, differing, rendered, write

__all__ = ["definition", "differing", "rendered", "write"]
