// Package cull implements the packed form of Grid Engine's common usable list library in messages:
// lists of elements with typed attributes, preceded by their descriptors.
//
// Other projects should not import this package: it may change at any time.
//
// A Format is the packed form of one series of releases. Decoder and Encoder only know this form. A
// table for each format (attributes-*.txt) lists the attributes; Unmarshal and Marshal use its
// names to convert between elements and Go types.
//
// It is pure. Decoding takes no more memory than Limits allow, whatever counts the data contains.
package cull
