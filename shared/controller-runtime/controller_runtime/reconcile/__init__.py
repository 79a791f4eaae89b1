"""The reconcile engine.

Pure, used by reconcilers and by replay: `components` and `inspect_*` say how one aspect is doing, `state_engine` turns
components into conditions, status and decisions (`evaluate`, `status_json`, `assemble`), `plan` is what comes out,
`decide` wraps it with finalizers, pause and deletion, `plan_json` makes it comparable.

With I/O, used by the runtime: `queue` orders the work, `worker` runs passes, `executor` (with `status_writer` and
`events`) carries plans out, `cache_access` is its way into the cache.

What others than reconcilers use of it (a queue, the children that a plan would write) is imported from here, and is
listed in `__init__.pyi`.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
