"""Messages between tiles, and reads of each other's memory."""

from rtl.message.engine import MessageEngine
from rtl.message.standalone import StandaloneMessages

__all__ = ["MessageEngine", "StandaloneMessages"]
