// Package cull is the common usable list library of Grid Engine as it is packed into
// messages: lists of elements with typed attributes, which are described by descriptors
// that travel with them.
//
// Other projects should not import this package: it may change at any time.
//
// A Format is how one series of releases packs them. Decoder and Encoder know the form alone.
// What attributes there are stands in a table for each format (attributes-*.txt), and
// Unmarshal and Marshal go between elements and Go types with its names.
//
// It is pure. What is decoded takes no more memory than Limits allow, whatever the
// counts in it say.
package cull
