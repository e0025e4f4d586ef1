package console

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
)

// writeTimeout is how long a client may take to read one part of a stream. The console disconnects slower clients.
const writeTimeout = 10 * time.Second

// maxConcurrentRenders is how many stream pages are rendered concurrently.
const maxConcurrentRenders = 2

// streams limits the number of streams.
type streams struct {
	max, maxEach int
	// renderSlots limits concurrent rendering. With many streams each is refreshed less often, which leaves CPU for other work.
	renderSlots chan struct{}

	mu     sync.Mutex
	total  int
	byUser map[string]int
}

func newStreams(most, each int) *streams {
	return &streams{max: most, maxEach: each, renderSlots: make(chan struct{}, maxConcurrentRenders), byUser: map[string]int{}}
}

func (s *streams) begin(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= s.max || s.byUser[who] >= s.maxEach {
		return false
	}
	s.total++
	s.byUser[who]++
	return true
}

func (s *streams) end(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.byUser[who]--; s.byUser[who] == 0 {
		delete(s.byUser, who)
	}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// stream sends a view each time it changes, as long as the visitor may see it. It does not buffer states that a slow client has not
// read: the client receives the latest state when it reads again.
func (s *server) stream(w http.ResponseWriter, v visit, name string, show viewFunc) {
	if !s.streams.begin(v.User.Name) {
		w.Header().Set("Retry-After", "30")
		s.writeProblem(w, v.Request, problem{http.StatusServiceUnavailable, "Too many pages are open", "This page updates itself less often."})
		return
	}
	defer s.streams.end(v.User.Name)
	w.Header().Set("Content-Type", "text/event-stream")
	out := &sender{ResponseController: http.NewResponseController(w), w: w}
	if out.send("hello", nil) != nil {
		return
	}
	var ended <-chan struct{}
	if v.Session != nil {
		ended = v.Session.Ended()
	}
	ticker := time.NewTicker(s.options.CheckInterval)
	defer ticker.Stop()
	for looked := (renderedState{}); ; {
		err := v.Revalidate(v.Context())
		if err == nil {
			err = s.sendIfChanged(out, v, name, show, &looked)
		}
		if err != nil && !s.reportError(out, err) {
			return
		}
		select {
		case <-ticker.C:
		case <-ended:
		case <-v.Context().Done():
			return
		}
	}
}

// renderedState is the last state that a stream has rendered.
type renderedState struct {
	version uint64
	at      time.Time
	sum     [sha256.Size]byte
}

var errClientGone = errors.New("the client disconnected or is too slow")

// sendIfChanged sends the view if the store has changed and the change is visible.
func (s *server) sendIfChanged(out *sender, v visit, name string, show viewFunc, last *renderedState) error {
	version, now := s.version(), s.now()
	if version == last.version && now.Sub(last.at) < s.options.RefreshInterval {
		return nil
	}
	text, err := s.renderLive(v, name, show)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	changed := sum != last.sum
	*last = renderedState{version: version, at: now, sum: sum}
	if !changed {
		return out.send("same", nil)
	}
	return out.send("page", text)
}

// renderLive renders the content of a stream once a turn is free.
func (s *server) renderLive(v visit, name string, show viewFunc) ([]byte, error) {
	select {
	case s.streams.renderSlots <- struct{}{}:
		defer func() { <-s.streams.renderSlots }()
	case <-v.Context().Done():
		return nil, errClientGone
	}
	body, err := show(v)
	if err != nil {
		return nil, err
	}
	text, err := s.pages.renderLive(name, s.frame(v, body))
	return []byte(text), err
}

// reportError tells the client why there is no content, and reports whether the stream continues.
func (s *server) reportError(out *sender, err error) (continues bool) {
	if errors.Is(err, errClientGone) {
		return false
	}
	p := s.problemOf(err)
	if p.status == http.StatusServiceUnavailable && !errors.Is(err, access.ErrUnauthenticated) {
		return out.send("away", []byte(p.Title)) == nil
	}
	_ = out.send("end", []byte(p.Title)) // the stream ends either way
	return false
}

// sender writes the events of a stream, each with its own deadline.
type sender struct {
	*http.ResponseController
	w http.ResponseWriter
}

func (s *sender) send(event string, content []byte) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "event: %s\n", event)
	for line := range bytes.SplitSeq(content, []byte("\n")) {
		fmt.Fprintf(&text, "data: %s\n", bytes.TrimRight(line, "\r"))
	}
	text.WriteByte('\n')
	// A stream lasts longer than the timeouts of the server.
	if err := errors.Join(s.SetReadDeadline(time.Time{}), s.SetWriteDeadline(time.Now().Add(writeTimeout))); err != nil {
		return errClientGone
	}
	if _, err := s.w.Write(text.Bytes()); err != nil {
		return errClientGone
	}
	// With HTTP/2 an expired write deadline ends a stream even while nothing is written.
	if errors.Join(s.Flush(), s.SetWriteDeadline(time.Time{})) != nil {
		return errClientGone
	}
	return nil
}
