package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// openTerminal opens a pseudo terminal of the given size. The program reads what the test writes to person.
func openTerminal(t *testing.T, columns, rows uint16) (userEnd, programEnd *os.File) {
	t.Helper()
	userEnd, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(userEnd.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(userEnd.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		programEnd, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(programEnd.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = userEnd.Close(), programEnd.Close() })
	return userEnd, programEnd
}

// terminalOutput records the output of the terminal.
type terminalOutput struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *terminalOutput) read(from io.Reader) {
	piece := make([]byte, 4096)
	for {
		n, err := from.Read(piece)
		s.mu.Lock()
		s.text.Write(piece[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *terminalOutput) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestWatchRestoresTerminal(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, withReservations(4))
	h.protect("api", 5, 9, nil)
	h.createDenial("web", "web-7", "alice", 3, 0)
	for claim, c := range map[string]struct {
		arguments []string
		columns   uint16
		key       string
		want      string
	}{
		"all, narrow, by q":      {[]string{"watch"}, 80, "q", "at floor"},
		"one, narrow, by ctrl-c": {[]string{"watch", "web"}, 80, "\x03", "Denies the next removal"},
		"one, wide, by q":        {[]string{"watch", "web"}, 160, "q", "Denies the next removal"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Setenv("TERM", "xterm")
			userEnd, programEnd := openTerminal(t, c.columns, 40)
			before, err := unix.IoctlGetTermios(int(programEnd.Fd()), unix.TCGETS)
			h.must(err)
			seen := &terminalOutput{}
			go seen.read(userEnd)
			root := rootCommand(genericiooptions.IOStreams{In: programEnd, Out: programEnd, ErrOut: programEnd})
			root.SetArgs(append(c.arguments, h.flags...))
			ended := make(chan error, 1)
			go func() { ended <- root.ExecuteContext(t.Context()) }()
			testplane.Eventually(t, func() string {
				if text := seen.String(); !strings.Contains(text, c.want) || !strings.Contains(text, "4+") {
					return "not drawn yet:\n" + text
				}
				return ""
			})
			_, err = userEnd.WriteString(c.key)
			h.must(err)
			h.must(<-ended)
			after, err := unix.IoctlGetTermios(int(programEnd.Fd()), unix.TCGETS)
			h.must(err)
			if *before != *after {
				t.Errorf("the terminal is left as %+v, and was %+v", after, before)
			}
			testplane.Eventually(t, func() string {
				if !strings.HasSuffix(seen.String(), "\x1b[?25h\x1b[?1049l") {
					return "the screen is not given back"
				}
				return ""
			})
			frames := strings.Split(seen.String(), "\x1b[H")
			t.Logf("\n%s", frames[len(frames)-1])
		})
	}
}
