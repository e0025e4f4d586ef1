// Package model computes what the console shows. It uses the code that makes decisions, not the informational status fields.
//
// It is pure: it takes values and a time, and returns values.
package model
