package main

import (
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		total    int64
		want     string
	}{
		"a terminal rewrites a line": {
			terminal: true, total: 4 << 20,
			want: "\r\033[K    etcd: 1.0 MiB of 4.0 MiB, about 18s left\r\033[K    etcd: 2.0 MiB of 4.0 MiB, about 12s left\r\033[K    etcd: 2.0 MiB in 12s\n",
		},
		"a log gets few lines": {total: 4 << 20, want: "    etcd: 2.0 MiB of 4.0 MiB, about 12s left\n    etcd: 2.0 MiB in 12s\n"},
		"an unknown size":      {total: -1, want: "    etcd: 2.0 MiB\n    etcd: 2.0 MiB in 12s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			now := time.Now()
			p := newProgress(&client{out: &out, terminal: c.terminal, now: func() time.Time { return now }}, "etcd", c.total)
			for range 2 {
				now = now.Add(6 * time.Second)
				if _, err := p.Write(make([]byte, 1<<20)); err != nil {
					t.Fatal(err)
				}
			}
			p.end()
			if out.String() != c.want {
				t.Errorf("got %q, want %q", out.String(), c.want)
			}
		})
	}
}
