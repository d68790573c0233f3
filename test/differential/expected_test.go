package differential

// expectedDifferences are the ways in which sge_shepherd-go differs from the
// original on purpose.
var expectedDifferences = []expectation{}
