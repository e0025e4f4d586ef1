package main

import (
	"strings"
	"unicode/utf8"
)

// node is a line of a tree, with its children.
type node struct {
	head     string
	text     string
	children []*node
}

func (n *node) add(head, text string) *node {
	child := &node{head: head, text: text}
	n.children = append(n.children, child)
	return child
}

// lines draws the children of a node. It wraps texts at width; 0 disables wrapping.
func (n *node) lines(width int) string {
	var b strings.Builder
	n.draw(&b, "", width)
	return b.String()
}

func (n *node) draw(b *strings.Builder, prefix string, width int) {
	for i, child := range n.children {
		branch, below := "├─ ", "│  "
		if i == len(n.children)-1 {
			branch, below = "└─ ", "   "
		}
		rest := prefix + below
		if len(child.children) > 0 {
			rest += "│  "
		} else {
			rest += "   "
		}
		child.line(b, prefix+branch, rest, width)
		child.draw(b, prefix+below, width)
	}
}

// line draws the node itself: its head, and its wrapped text next to it.
func (n *node) line(b *strings.Builder, first, rest string, width int) {
	head := n.head
	switch {
	case n.text == "":
		head = strings.TrimRight(head, " ")
	case head != "":
		head += "  "
	}
	room := 0
	if width > 0 {
		room = max(24, width-utf8.RuneCountInString(rest))
	}
	begin := soft.of(first) + head
	for _, line := range wrap(n.text, room, columnsOf(begin)-utf8.RuneCountInString(rest)) {
		b.WriteString(begin + line + "\n")
		begin = soft.of(rest)
	}
}

// wrap breaks a text between words into lines of at most width characters. The first line is shorter by used. A width of 0 disables
// wrapping.
func wrap(text string, width, used int) []string {
	if width == 0 {
		return []string{text}
	}
	var lines []string
	line, room := "", width-used
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= room:
			line += " " + word
		default:
			lines = append(lines, line)
			line, room = word, width
		}
	}
	return append(lines, line)
}
