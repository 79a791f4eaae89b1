from .replayer import Replayed as Replayed
from .replayer import Replayer as Replayer
from .replayer import ServiceCode as ServiceCode
from .replayer import Verdict as Verdict
