package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// What is sampled. The figures of the replicas of a component are added up.
const (
	memoryKind     = "memory, MiB"
	heapKind       = "heap, MiB"
	goroutinesKind = "goroutines"
	etcdKind       = "etcd in use, MiB"
	removalsKind   = "p99 of removals, ms"
	// keysKind begins the kinds of the numbers of keys by resource, which tell what grows in an etcd.
	keysKind = "keys of "
)

// sampledMetrics are the metrics of a process, with their kind.
var sampledMetrics = map[string]string{ //nolint:gochecknoglobals // never written
	"process_resident_memory_bytes": memoryKind, "go_memstats_heap_inuse_bytes": heapKind, "go_goroutines": goroutinesKind,
}

// series identifies a series of samples, such as the memory of the webhooks.
type series struct{ kind, of string }

// samples are the samples of a soak, in their order.
type samples struct {
	mu       sync.Mutex
	values   map[series][]float64
	removals [][]time.Duration // of each storm
}

func newSamples() *samples { return &samples{values: map[series][]float64{}} }

func (s *samples) add(values map[series]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, value := range values {
		s.values[at] = append(s.values[at], value)
	}
}

func (s *samples) addRemovals(removals []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removals = append(s.removals, removals)
}

// startSampling makes all lanes keep the whole history, and opens the core's etcd.
func (s *soak) startSampling(ctx context.Context) error {
	for lane := range soakLanes {
		if err := s.keepFrom(ctx, lane); err != nil {
			return err
		}
	}
	return nil
}

// sampleUntil takes samples until ctx ends. Their failure ends the soak.
func (s *soak) sampleUntil(ctx context.Context, pause time.Duration) {
	core, err := s.stage.Core.DialEtcd()
	if err != nil {
		s.add(Result{}, err)
		return
	}
	defer func() { _ = core.Close() }()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	compacted := int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		values := map[series]float64{}
		head, err := revisionOf(ctx, core)
		if err == nil {
			err = errors.Join(s.sampleProcesses(ctx, values), sampleEtcd(ctx, core, s.stage.Core.Name(), compacted, values))
		}
		for i, etcd := range s.stage.etcds {
			err = errors.Join(err, sampleEtcd(ctx, etcd, s.stage.Workers[i].Name(), s.unneeded(i), values))
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.add(Result{}, fmt.Errorf("take a sample: %w", err))
			return
		}
		compacted = head
		s.samples.add(values)
	}
}

// sampleEtcd compacts an etcd up to a revision, as an API server does, and adds the size that is then in use.
func sampleEtcd(ctx context.Context, etcd *clientv3.Client, cluster string, upTo int64, into map[series]float64) error {
	if upTo > 0 {
		// Another sample may have compacted as far.
		if _, err := etcd.Compact(ctx, upTo, clientv3.WithCompactPhysical()); err != nil && !hasCode(err, codes.OutOfRange) {
			return fmt.Errorf("compact the etcd of cluster %s: %w", cluster, err)
		}
	}
	status, err := etcd.Status(ctx, etcd.Endpoints()[0])
	if err != nil {
		return fmt.Errorf("read the size of the etcd of cluster %s: %w", cluster, err)
	}
	into[series{etcdKind, cluster}] = float64(status.DbSizeInUse) / (1 << 20)
	all, err := etcd.Get(ctx, registry, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("read the keys of the etcd of cluster %s: %w", cluster, err)
	}
	for _, kv := range all.Kvs {
		into[series{keysKind + resourceOf(string(kv.Key)), cluster}]++
	}
	return nil
}

const registry = "/registry/"

// resourceOf returns the resource of a key of an API server, with its group if it is not one of Kubernetes' own.
func resourceOf(key string) string {
	segments := strings.SplitN(strings.TrimPrefix(key, registry), "/", 3)
	if len(segments) > 2 && strings.Contains(segments[0], ".") {
		return segments[1] + "." + segments[0]
	}
	return segments[0]
}

// sampleProcesses reads the metrics of webhooks and aggregators.
func (s *soak) sampleProcesses(ctx context.Context, into map[series]float64) error {
	for name, address := range s.stage.Breakwater.MetricsAddresses() {
		component, _, _ := strings.Cut(name, "-")
		if component != "webhook" && component != "aggregator" {
			continue
		}
		metrics, err := readMetrics(ctx, address)
		if err != nil {
			return fmt.Errorf("read the metrics of %s: %w", name, err)
		}
		for metric, kind := range sampledMetrics {
			value, ok := metrics[metric]
			if !ok {
				return fmt.Errorf("%s has no metric %s", name, metric)
			}
			if strings.HasSuffix(metric, "_bytes") {
				value /= 1 << 20
			}
			into[series{kind, component + "s"}] += value
		}
	}
	return nil
}

// readMetrics returns the metrics without labels that a process serves.
func readMetrics(ctx context.Context, address string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	metrics := map[string]float64{}
	for line := range strings.Lines(string(raw)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			metrics[name] = value
		}
	}
	return metrics, nil
}
