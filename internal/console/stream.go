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

// writeTime is how long a client may take to read one part of a stream. The console disconnects slower clients.
const writeTime = 10 * time.Second

// turnsAtOnce is how many stream pages are rendered concurrently.
const turnsAtOnce = 2

// streams limits the number of streams.
type streams struct {
	most, each int
	// turns limits concurrent rendering. With many streams each is refreshed less often, which leaves CPU for other work.
	turns chan struct{}

	mu  sync.Mutex
	all int
	of  map[string]int
}

func newStreams(most, each int) *streams {
	return &streams{most: most, each: each, turns: make(chan struct{}, turnsAtOnce), of: map[string]int{}}
}

func (s *streams) begin(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.most || s.of[who] >= s.each {
		return false
	}
	s.all++
	s.of[who]++
	return true
}

func (s *streams) end(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[who]--; s.of[who] == 0 {
		delete(s.of, who)
	}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// stream sends a view each time it changes, as long as the visitor may see it. It does not buffer states that a slow client has not
// read: the client receives the latest state when it reads again.
func (s *server) stream(w http.ResponseWriter, v visit, name string, show showing) {
	if !s.streams.begin(v.Who.Name) {
		w.Header().Set("Retry-After", "30")
		s.fail(w, v.Request, problem{http.StatusServiceUnavailable, "Too many pages are open", "This one renews itself less often."})
		return
	}
	defer s.streams.end(v.Who.Name)
	w.Header().Set("Content-Type", "text/event-stream")
	out := &sender{ResponseController: http.NewResponseController(w), w: w}
	if out.send("hello", nil) != nil {
		return
	}
	var ended <-chan struct{}
	if v.Session != nil {
		ended = v.Session.Ended()
	}
	ticker := time.NewTicker(s.options.Every)
	defer ticker.Stop()
	for looked := (look{}); ; {
		err := v.Still(v.Context())
		if err == nil {
			err = s.renew(out, v, name, show, &looked)
		}
		if err != nil && !s.explain(out, err) {
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

// look is the last state that a stream has rendered.
type look struct {
	version uint64
	at      time.Time
	sum     [sha256.Size]byte
}

var errGone = errors.New("the client has left, or is too slow")

// renew sends the view if the store has changed and the change is visible.
func (s *server) renew(out *sender, v visit, name string, show showing, last *look) error {
	version, now := s.store.version(), s.now()
	if version == last.version && now.Sub(last.at) < s.options.Again {
		return nil
	}
	text, err := s.draw(v, name, show)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	changed := sum != last.sum
	*last = look{version: version, at: now, sum: sum}
	if !changed {
		return out.send("same", nil)
	}
	return out.send("page", text)
}

// draw renders the content of a stream once a turn is free.
func (s *server) draw(v visit, name string, show showing) ([]byte, error) {
	select {
	case s.streams.turns <- struct{}{}:
		defer func() { <-s.streams.turns }()
	case <-v.Context().Done():
		return nil, errGone
	}
	body, err := show(v)
	if err != nil {
		return nil, err
	}
	text, err := s.pages.live(name, s.frame(v, body))
	return []byte(text), err
}

// explain tells the client why there is no content, and reports whether the stream continues.
func (s *server) explain(out *sender, err error) (goOn bool) {
	if errors.Is(err, errGone) {
		return false
	}
	p := s.problemOf(err)
	if p.status == http.StatusServiceUnavailable && !errors.Is(err, access.ErrNobody) {
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
	if err := errors.Join(s.SetReadDeadline(time.Time{}), s.SetWriteDeadline(time.Now().Add(writeTime))); err != nil {
		return errGone
	}
	if _, err := s.w.Write(text.Bytes()); err != nil {
		return errGone
	}
	// With HTTP/2 an expired write deadline ends a stream even while nothing is written.
	if errors.Join(s.Flush(), s.SetWriteDeadline(time.Time{})) != nil {
		return errGone
	}
	return nil
}
