# What others may rely on. The names are loaded when they are first used.
from .config import ConfigError as ConfigError
from .config import Connection as Connection
from .config import default_namespace as default_namespace
from .config import from_kubeconfig as from_kubeconfig
from .errors import ApiConnectionError as ApiConnectionError
from .errors import api_error as api_error
from .reflector import Bookmark as Bookmark
from .reflector import Delete as Delete
from .reflector import Reflector as Reflector
from .reflector import Restarted as Restarted
from .reflector import Upsert as Upsert
from .reflector import as_sent as as_sent
