// Package review answers the reviews of removals: Protection.Review takes each through numbered steps (review.go) and has one exit. What the steps
// need is in files of its own: the pods, nodes and callers of cells, and the reports of denials.
package review
