package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// openWatch starts to stream events.
func (l *Link) openWatch(ctx context.Context, request *http.Request, c *call) (*http.Response, error) {
	if err := sleepContext(ctx, l.latency("watch "+c.drawKey)); err != nil {
		return nil, err
	}
	if l.store.IsStopped() {
		return nil, refusedError(c)
	}
	stream := l.store.watchFrom(c, l)
	l.store.Traffic("%s: watch %s from %d", l.name, c.path, stream.version)
	if stream.isExpired {
		return failure(apierrors.NewResourceExpired("the history is compacted")).response(request), nil
	}
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	l.store.inProgress.Go(func() {
		defer cancel()
		end := stream.run(ctx, writer)
		if l.frozen.Load() {
			_ = l.passGate(ctx, l.answers, stream.drawKey+" end")
		}
		writer.CloseWithError(end)
	})
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/2.0", ProtoMajor: 2, Request: request, ContentLength: -1,
		Header: http.Header{contentType: {jsonContent}}, Body: &body{PipeReader: reader, cancel: cancel},
	}, nil
}

// body ends its stream when the client closes it.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// stream is one watch.
type stream struct {
	link *Link
	// drawKey identifies the watch for the dice: an earlier watch may not have ended yet.
	drawKey      string
	call         *call
	restarts     int
	isExpired    bool
	until        time.Time
	next         int // in the history
	initial      [][]byte
	version      uint64
	deliver      time.Time
	lastShown    time.Time
	isListing    bool // until it has sent the objects that it begins with
	lastBookmark time.Time
}

func (s *Store) watchFrom(c *call, l *Link) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &stream{link: l, call: c, drawKey: l.name + " " + c.drawKey, restarts: s.restarts, version: s.version}
	if seconds, err := strconv.Atoi(c.query.Get("timeoutSeconds")); err == nil {
		w.until = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	asked := c.query.Get("resourceVersion")
	version, err := strconv.ParseUint(asked, 10, 64)
	switch {
	case c.query.Get("sendInitialEvents") == trueParam:
		w.isListing = true
		objects := s.objects[c.kind.Resource]
		if asked == "0" {
			objects, w.version = s.laggingState(c, l)
		}
		for _, o := range sorted(objects, c.key.Namespace) {
			if c.metadata {
				o = metadataOf(o)
			}
			w.initial = append(w.initial, encodeEvent(watch.Added, o))
		}
	case asked == "" || asked == "0":
	case err != nil || version < s.compacted:
		// A future version is no error: such a watch shows the changes after that version and none of the changes up to it. That is how a
		// client misses a restore.
		w.isExpired = true
		return w
	default:
		w.version = version
	}
	for w.next < len(s.history) && s.history[w.next].Version <= w.version {
		w.next++
	}
	return w
}

// run writes events until the client leaves or the watch ends; both are a normal end of the stream.
func (w *stream) run(ctx context.Context, to io.Writer) error {
	// A client uses no initial event before it has received all of them.
	for _, raw := range w.initial {
		if err := w.send(ctx, to, raw, time.Now(), 0); err != nil {
			return io.EOF
		}
	}
	if w.isListing {
		if err := w.send(ctx, to, w.bookmark(w.version, map[string]string{initialEnd: trueParam}), time.Now(), w.version); err != nil {
			return io.EOF
		}
		w.isListing = false
	}
	w.lastBookmark = time.Now()
	for {
		event, err := w.nextEvent(ctx)
		if err != nil {
			return io.EOF
		}
		if event == nil { // of another resource, or none
			if err := w.writeDueBookmark(ctx, to); err != nil {
				return io.EOF
			}
			continue
		}
		if err := w.send(ctx, to, event.encoded(w.call.metadata), event.At, event.Version); err != nil {
			return io.EOF
		}
		what := fmt.Sprintf("%s %d", w.drawKey, event.Version)
		weather := w.link.weather.Load()
		if w.link.dice.Chance(0.1, what+" bookmark") {
			if err := w.send(ctx, to, w.bookmark(event.Version, nil), time.Now(), event.Version); err != nil {
				return io.EOF
			}
		}
		if w.link.dice.Chance(weather.Break, what+" break") {
			return io.EOF
		}
	}
}

// bookmarkEvery is how often an API server sends its current version to the clients of a watch, even if no object changes.
const bookmarkEvery = time.Minute

// writeDueBookmark writes a bookmark when one is due, to a watch that has reached the end of the history.
func (w *stream) writeDueBookmark(ctx context.Context, to io.Writer) error {
	s := w.link.store
	s.mu.Lock()
	version, isAtEnd := s.version, w.next == len(s.history)
	s.mu.Unlock()
	if !isAtEnd || time.Since(w.lastBookmark) < bookmarkEvery {
		return nil
	}
	w.lastBookmark = time.Now()
	return w.send(ctx, to, w.bookmark(version, nil), time.Now(), version)
}

// nextEvent returns the next event. It returns nil if the event does not belong to this watch, or a bookmark is due. An error ends the watch.
func (w *stream) nextEvent(ctx context.Context) (*Event, error) {
	s := w.link.store
	for {
		s.mu.Lock()
		if s.restarts != w.restarts {
			s.mu.Unlock()
			// Clients see the end at different instants, so that their retries do not race for the same random draw.
			_ = sleepContext(ctx, w.link.latency("end of "+w.drawKey))
			return nil, io.EOF
		}
		if w.next < len(s.history) {
			event := s.history[w.next]
			w.next++
			s.mu.Unlock()
			if event.Version <= w.version || event.Kind != w.call.kind || w.call.key.Namespace != "" && event.New.GetNamespace() != w.call.key.Namespace {
				return nil, nil
			}
			return event, nil
		}
		moved := s.changed
		s.mu.Unlock()
		var ended <-chan time.Time
		if !w.until.IsZero() {
			ended = time.After(time.Until(w.until))
		}
		select {
		case <-moved:
		case <-time.After(time.Until(w.lastBookmark.Add(bookmarkEvery))):
			return nil, nil
		case <-ended:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// send delivers bytes after a delay, in order.
func (w *stream) send(ctx context.Context, to io.Writer, raw []byte, at time.Time, version uint64) error {
	most := w.link.weather.Load().Lag
	if most == 0 {
		most = defaultLag
	}
	at = at.Add(w.link.dice.Between(minLatency, most, fmt.Sprintf("%s event %d", w.drawKey, version)))
	if at.Before(w.deliver) {
		at = w.deliver
	}
	w.deliver = at.Add(time.Microsecond)
	if err := sleepContext(ctx, time.Until(at)); err != nil {
		return err
	}
	for _, g := range []*gate{w.link.watches, w.link.answers} {
		if err := w.link.passGate(ctx, g, fmt.Sprintf("%s event %d", w.drawKey, version)); err != nil {
			return err
		}
	}
	// Events that were held arrive together, but each at its own instant. Otherwise the Go scheduler would decide how many of them a
	// client has processed when it reads its cache.
	if err := sleepContext(ctx, time.Until(w.lastShown.Add(time.Microsecond))); err != nil {
		return err
	}
	w.lastShown = time.Now()
	w.link.store.Traffic("%s: watch %s shows %d", w.link.name, w.call.path, version)
	if _, err := to.Write(raw); err != nil {
		return err
	}
	w.link.sawProtectors(w.call, version, w.isListing)
	return nil
}

func (w *stream) bookmark(version uint64, annotations map[string]string) []byte {
	object := w.call.kind.New()
	object.GetObjectKind().SetGroupVersionKind(w.call.kind.GroupVersionKind)
	object.SetResourceVersion(strconv.FormatUint(version, 10))
	object.SetAnnotations(annotations)
	if w.call.metadata {
		object = metadataOf(object)
	}
	return encodeEvent(watch.Bookmark, object)
}

// sleepContext waits for a time, or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
