// Package model says what the console shows, by the code that decisions are made by and not by the fields for people.
//
// It is pure: values and a time in, values out.
package model
