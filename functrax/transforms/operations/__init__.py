"""Operations whose rules need the interpreters: callbacks, collectives, checks, barriers."""
