"""Which bones a motion has: how many (`bone_count`), and one for each part (`local_bones`)."""
