from .past import UnansweredError as UnansweredError
from .past import objects_read as objects_read
from .past import scoped_part as scoped_part
from .past import searched_parts as searched_parts
from .replayer import Replayed as Replayed
from .replayer import Replayer as Replayer
from .replayer import ServiceCode as ServiceCode
from .replayer import Verdict as Verdict
