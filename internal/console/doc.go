// Package console serves a web page with protectors, cells and denials. It shows each user what the core's API server permits that user
// to see. It is read-only.
package console
