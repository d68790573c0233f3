// Package cull is the common usable list library of Grid Engine 8.1.9 as it is packed
// into messages: lists of elements with typed attributes, which are described by
// descriptors that travel with them.
//
// Other projects should not import this package: it may change at any time.
//
// Decoder and Encoder know the form alone. What attributes there are stands in a table
// (attributes.txt), and Unmarshal and Marshal go between elements and Go types with its
// names.
//
// It is pure. What is decoded takes no more memory than Limits allow, whatever the
// counts in it say.
package cull
