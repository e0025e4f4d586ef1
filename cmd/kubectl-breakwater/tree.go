package main

import (
	"strings"
	"unicode/utf8"
)

// node is a line of a tree, with its children.
type node struct {
	head cell
	text string
	kids []*node
}

func (n *node) add(head cell, text string) *node {
	kid := &node{head: head, text: text}
	n.kids = append(n.kids, kid)
	return kid
}

// lines draws the children of a node. It wraps texts at width; 0 disables wrapping.
func (n *node) lines(width int, coloured bool) string {
	var b strings.Builder
	n.draw(&b, "", width, coloured)
	return b.String()
}

func (n *node) draw(b *strings.Builder, prefix string, width int, coloured bool) {
	for i, kid := range n.kids {
		branch, below := "├─ ", "│  "
		if i == len(n.kids)-1 {
			branch, below = "└─ ", "   "
		}
		rest := prefix + below
		if len(kid.kids) > 0 {
			rest += "│  "
		} else {
			rest += "   "
		}
		kid.line(b, prefix+branch, rest, width, coloured)
		kid.draw(b, prefix+below, width, coloured)
	}
}

// line draws the node itself: its head, and its wrapped text next to it.
func (n *node) line(b *strings.Builder, first, rest string, width int, coloured bool) {
	head := utf8.RuneCountInString(n.head.text)
	if head > 0 && n.text != "" {
		head += 2
	}
	room := 0
	if width > 0 {
		room = max(24, width-utf8.RuneCountInString(rest))
	}
	for i, line := range wrap(n.text, room, head+utf8.RuneCountInString(first)-utf8.RuneCountInString(rest)) {
		switch {
		case i > 0:
			b.WriteString(soft.on(rest, coloured) + line + "\n")
		case n.head.text == "":
			b.WriteString(soft.on(first, coloured) + line + "\n")
		case line == "":
			b.WriteString(soft.on(first, coloured) + n.head.as.on(strings.TrimRight(n.head.text, " "), coloured) + "\n")
		default:
			b.WriteString(soft.on(first, coloured) + n.head.as.on(n.head.text, coloured) + "  " + line + "\n")
		}
	}
}

// wrap breaks a text between words into lines of at most width characters. The first line is shorter by used. A width of 0 disables
// wrapping.
func wrap(text string, width, used int) []string {
	if width == 0 {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		room := width
		if len(lines) == 0 {
			room -= used
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= room:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
