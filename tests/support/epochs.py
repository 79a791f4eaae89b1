"""Names of epochs as publishers give them, in the order of their age."""

E0, E1, E2, E3 = (f"2026010{number + 1}T000000.000Z-{number:06x}" for number in range(4))
