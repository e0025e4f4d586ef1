package main

import (
	"fmt"
	"io"
	"time"
)

// The interval between two lines of progress: on a terminal, where a line replaces the one before, and in a log.
const (
	terminalInterval = 200 * time.Millisecond
	logInterval      = 10 * time.Second
)

// progress reports how much of a file has arrived.
type progress struct {
	*client
	name        string
	total, done int64 // bytes; total is -1 if the site does not send it
	began, last time.Time
}

func newProgress(c *client, name string, total int64) *progress {
	now := c.now()
	return &progress{client: c, name: name, total: total, began: now, last: now}
}

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	now, interval := p.now(), logInterval
	if p.terminal {
		interval = terminalInterval
	}
	if now.Sub(p.last) >= interval {
		p.last = now
		p.print(p.line(now))
	}
	return len(b), nil
}

func (p *progress) line(now time.Time) string {
	elapsed := now.Sub(p.began)
	text := fmt.Sprintf("%s: %s", p.name, mebibytes(p.done))
	if p.total > 0 {
		left := time.Duration(float64(elapsed) * float64(p.total-p.done) / float64(p.done))
		text += fmt.Sprintf(" of %s, about %s left", mebibytes(p.total), left.Round(time.Second))
	}
	return text
}

// end prints the last line.
func (p *progress) end() {
	p.print(fmt.Sprintf("%s: %s in %s", p.name, mebibytes(p.done), p.now().Sub(p.began).Round(100*time.Millisecond)))
	if p.terminal {
		_, _ = io.WriteString(p.out, "\n")
	}
}

// print ignores errors: a download succeeds without its progress.
func (p *progress) print(text string) {
	format := "    %s\n"
	if p.terminal {
		format = "\r\033[K    %s"
	}
	_, _ = fmt.Fprintf(p.out, format, text)
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
