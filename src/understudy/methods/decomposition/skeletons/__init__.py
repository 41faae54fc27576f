"""From independent bones to one skeleton: joints, hierarchy, motion, weights, rest transforms."""
