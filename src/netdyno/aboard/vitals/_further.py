"""Which updates are looked at by what has a budget of its own: the first, and then each that is a quarter further on."""

FIRST, FURTHER = 6, 1.25


class Further:
    """Says at the end of each update whether the next is one to look at: some thirty in a thousand, forty in ten thousand.

    >>> look, looked = Further(), []
    >>> for number in range(1, 30):
    ...     if look.now:
    ...         looked.append(number)
    ...     look.over(number)
    >>> looked
    [1, 2, 3, 4, 5, 6, 7, 9, 12, 16, 21, 27]
    """

    __slots__ = ("next", "now")

    def __init__(self) -> None:
        self.now = True
        self.next = FIRST

    def over(self, number: int) -> None:
        """Update `number` is over."""
        self.now = number < FIRST or number + 1 >= self.next
        if number >= FIRST and self.now:
            self.next = int((number + 1) * FURTHER) + 1
