// Package console serves a page that shows protectors, cells and what is refused, to people whom the core's apiserver lets see them. It
// only reads.
package console
