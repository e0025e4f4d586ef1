package plugin

import (
	"strings"
	"unicode/utf8"
)

// Tree is a line of a tree, with its children.
type Tree struct {
	head     string
	text     string
	Children []*Tree
}

// Add adds a child, and returns it.
func (n *Tree) Add(head, text string) *Tree {
	child := &Tree{head: head, text: text}
	n.Children = append(n.Children, child)
	return child
}

// Lines draws the children of a node. It wraps texts at width; 0 disables wrapping.
func (n *Tree) Lines(width int) string {
	var b strings.Builder
	n.draw(&b, "", width)
	return b.String()
}

func (n *Tree) draw(b *strings.Builder, prefix string, width int) {
	for i, child := range n.Children {
		branch, below := "├─ ", "│  "
		if i == len(n.Children)-1 {
			branch, below = "└─ ", "   "
		}
		rest := prefix + below
		if len(child.Children) > 0 {
			rest += "│  "
		} else {
			rest += "   "
		}
		child.line(b, prefix+branch, rest, width)
		child.draw(b, prefix+below, width)
	}
}

// line draws the node itself: its head, and its wrapped text next to it.
func (n *Tree) line(b *strings.Builder, first, rest string, width int) {
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
	begin := Soft.Of(first) + head
	for _, line := range Wrap(n.text, room, ColumnsOf(begin)-utf8.RuneCountInString(rest)) {
		b.WriteString(begin + line + "\n")
		begin = Soft.Of(rest)
	}
}

// Wrap breaks a text between words into lines of at most width characters. The first line is shorter by used. A width of 0 disables
// wrapping.
func Wrap(text string, width, used int) []string {
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
