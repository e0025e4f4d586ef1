package nodeguard

import (
	"context"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// stream is a watch of the node's pods by the kubelet.
type stream struct {
	guard  *Guard
	format podwire.Format
	// listed has the UIDs of the initial events; nil after them, and if the watch has none.
	listed map[types.UID]bool
	// injected receives events of the guard's own.
	injected chan podwire.Event
	// relist ends the stream after the waiting events of the guard's own, so that the kubelet lists its pods.
	relist chan struct{}
	// ends is how many held pods had ended when the stream began.
	ends int
}

// watchPods edits a watch of the node's pods. It returns the stream that the kubelet reads. initialEvents says that the watch begins with all
// pods, as a list would.
func (g *Guard) watchPods(ctx context.Context, f podwire.Format, body io.ReadCloser, initialEvents bool) io.ReadCloser {
	s := &stream{guard: g, format: f, injected: make(chan podwire.Event, maxStored), relist: make(chan struct{}, 1)}
	if initialEvents {
		s.listed = map[types.UID]bool{}
	}
	g.mu.Lock()
	g.watches.streams[s], s.ends = true, g.watches.ends
	if g.watches.resync && !initialEvents { // a held pod ended after the request was let through
		s.relist <- struct{}{}
	}
	g.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	reader, writer := io.Pipe()
	go func() {
		defer cancel()
		writer.CloseWithError(s.run(ctx, body, writer))
		_ = body.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.watches.streams, s)
		g.watches.resync = true // what is found out without a stream reaches the kubelet by a list
	}()
	return &closer{reader, cancel}
}

type closer struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (c *closer) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}

// run forwards events until the watch ends.
func (s *stream) run(ctx context.Context, body io.Reader, to io.Writer) error {
	events, failed := make(chan podwire.Event), make(chan error, 1)
	go func() {
		reader := podwire.NewReader(s.format, body)
		for {
			e, err := reader.Next()
			if err != nil {
				failed <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		var all []podwire.Event
		var err error
		select {
		case e := <-events:
			all, err = s.edit(ctx, e)
		case e := <-s.injected:
			all = []podwire.Event{e}
		case <-s.relist:
			if err := s.write(to, s.takeInjected()); err != nil {
				return err
			}
			return io.EOF
		case err = <-failed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := s.write(to, all); err != nil {
			return err
		}
	}
}

func (s *stream) write(to io.Writer, all []podwire.Event) error {
	for _, e := range all {
		raw, err := e.Encode(s.format)
		if err != nil {
			return err
		}
		if _, err := to.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

// takeInjected returns the waiting events of the guard's own. They precede an event of the API server that was edited with what the guard knew then:
// the end of a held pod comes before another pod of its name, or the kubelet would stop that one.
func (s *stream) takeInjected() (all []podwire.Event) {
	for {
		select {
		case e := <-s.injected:
			all = append(all, e)
		default:
			return all
		}
	}
}

// edit returns what the kubelet sees next, with and instead of an event.
func (s *stream) edit(ctx context.Context, e podwire.Event) ([]podwire.Event, error) {
	if e.Type == watch.Bookmark && s.listed != nil {
		return s.endInitialEvents(ctx, e)
	}
	all, err := s.editPod(ctx, e)
	return append(s.takeInjected(), all...), err
}

// editPod returns what the kubelet sees instead of an event.
func (s *stream) editPod(ctx context.Context, e podwire.Event) ([]podwire.Event, error) {
	switch {
	case !e.IsPod():
		return []podwire.Event{e}, nil
	case e.Type == watch.Deleted:
		return s.deleted(ctx, e)
	}
	pod, err := podwire.Decode(s.format, e.Object)
	if err != nil {
		return nil, err
	}
	if s.listed != nil {
		s.listed[pod.UID] = true
	}
	seen, change, err := s.guard.observe(ctx, podhold.PodOf(pod), encoded{s.format, e.Object})
	switch {
	case err != nil:
		return nil, err
	case change != podhold.Show:
		return nil, nil
	case string(seen.raw) == string(e.Object):
		return []podwire.Event{e}, nil
	default:
		return []podwire.Event{{Type: e.Type, Object: seen.raw}}, nil
	}
}

// endInitialEvents decides on the pods that the initial events did not have, and adds those that are held.
func (s *stream) endInitialEvents(ctx context.Context, e podwire.Event) ([]podwire.Event, error) {
	pod, err := podwire.Decode(s.format, e.Object)
	if err != nil {
		return nil, err
	}
	if pod.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		return append(s.takeInjected(), e), nil
	}
	s.guard.decideMissing(ctx, s.listed)
	s.listed = nil
	s.guard.recordListed(s.ends)
	s.guard.mu.Lock()
	held, err := s.guard.encodeHeld(s.format)
	all := s.takeInjected() // the ends of pods that are not held any more; those of held ones follow
	s.guard.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, object := range held {
		all = append(all, podwire.Event{Type: watch.Added, Object: object})
	}
	return append(all, e), nil
}

// deleted decides on a pod that the API server reports as deleted.
func (s *stream) deleted(ctx context.Context, e podwire.Event) ([]podwire.Event, error) {
	pod, err := podwire.Decode(s.format, e.Object)
	if err != nil {
		return nil, err
	}
	g := s.guard
	g.mu.Lock()
	uids := g.pods.toKubelet
	change := g.pods.view.Vanish(podhold.PodOf(pod))
	delete(g.watches.hidden, pod.UID)
	last, _ := g.pods.view.Get(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	g.mu.Unlock()
	if change == podhold.Hide {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, admissionTimeout)
	defer cancel()
	if g.decideLost(ctx, last.Pod) {
		return nil, nil
	}
	if translated := uids.Replace(e.Object); string(translated) != string(e.Object) {
		return []podwire.Event{{Type: watch.Deleted, Object: translated}}, nil
	}
	return []podwire.Event{e}, nil
}

// end tells all watches of the kubelet that a held pod is gone. It reports whether the pod was still held, and the UID of its incomplete registration,
// empty without one, which may have begun since the end was decided. If the guard hid another pod of the name
// from the kubelet, no event shows that one, and the kubelet must list its pods. An event of the guard's own would not do: it could come after a later
// one of the API server.
func (g *Guard) end(p podhold.Pod, why podhold.End) (registered types.UID, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holds(p) || why == podhold.EndSatisfied && !g.attempts[p.UID].unregistrable {
		return "", false // it was registered meanwhile, or is being
	}
	e, _ := g.pods.view.Get(p.NamespacedName)
	for s := range g.watches.streams {
		raw, err := g.pods.objects[p.UID].in(s.format)
		if err != nil {
			g.log.Error(err, "Failed to encode pod", "pod", p.NamespacedName)
			continue
		}
		s.injected <- podwire.Event{Type: watch.Deleted, Object: raw}
	}
	g.watches.recordEnd(p.NamespacedName)
	g.log.Info("Held pod ended", "pod", p.NamespacedName, "uid", p.UID, "reason", why)
	g.metrics.ended.WithLabelValues(string(why)).Inc()
	g.remove(p)
	return e.Registered, true
}
