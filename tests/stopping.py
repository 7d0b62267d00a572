"""A training that dies at a save."""

from lib.runs import Checkpoint


class Stop(Exception):
    pass


class Interrupted(Checkpoint):
    """Dies, as it were, right after a given save."""

    def __init__(self, folder, saves):
        super().__init__(folder)
        self.left = saves

    def save(self, arrays, state):
        super().save(arrays, state)
        self.left -= 1
        if not self.left:
            raise Stop
