package main

import (
	"strings"
	"unicode/utf8"
)

// node is a line of a tree, with its children.
type node struct {
	head     tableCell
	text     string
	children []*node
}

func (n *node) add(head tableCell, text string) *node {
	child := &node{head: head, text: text}
	n.children = append(n.children, child)
	return child
}

// lines draws the children of a node. It wraps texts at width; 0 disables wrapping.
func (n *node) lines(width int, coloured bool) string {
	var b strings.Builder
	n.draw(&b, "", width, coloured)
	return b.String()
}

func (n *node) draw(b *strings.Builder, prefix string, width int, coloured bool) {
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
		child.line(b, prefix+branch, rest, width, coloured)
		child.draw(b, prefix+below, width, coloured)
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
			b.WriteString(soft.apply(rest, coloured) + line + "\n")
		case n.head.text == "":
			b.WriteString(soft.apply(first, coloured) + line + "\n")
		case line == "":
			b.WriteString(soft.apply(first, coloured) + n.head.style.apply(strings.TrimRight(n.head.text, " "), coloured) + "\n")
		default:
			b.WriteString(soft.apply(first, coloured) + n.head.style.apply(n.head.text, coloured) + "  " + line + "\n")
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
