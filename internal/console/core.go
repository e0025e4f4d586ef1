package console

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

const (
	// probeTimeout is how long a core may take to answer a probe, and syncTimeout to send all protectors and cells.
	probeTimeout = 5 * time.Second
	syncTimeout  = 2 * time.Minute
	// maxFailedProbes is how many probes in a row fail before a core counts as unreachable.
	maxFailedProbes = 2
)

// core is the connection to a core cluster and the data from it. While the core is unreachable, the last known data stay.
type core struct {
	name   string
	config *rest.Config
	client kubernetes.Interface
	store  *store
	log    logr.Logger
	now    func() time.Time
	// probeInterval is how often the core is probed.
	probeInterval time.Duration

	mu sync.RWMutex
	// reader reads protectors and cells from the cache of the last connection; nil before the first.
	reader client.Reader
	// answered is the time of the last successful probe; zero before the first.
	answered time.Time
	// tried reports whether the first connection was set up or has failed. up reports whether the data are current.
	tried, up bool
}

func newCore(name string, config *rest.Config, points int, options *Options, log logr.Logger) (*core, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the core cluster %s: %w", name, err)
	}
	return &core{
		name: name, config: config, client: clientset, store: newStore(time.Now, points), log: log.WithValues("core", name), now: time.Now,
		probeInterval: options.ProbeInterval,
	}, nil
}

// Start implements manager.Runnable. It keeps a connection until ctx ends. After an outage it connects again: a watch that continues could
// lag behind, and its data would look current.
func (c *core) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		connection, disconnect := context.WithCancel(ctx)
		defer disconnect()
		err := c.probe(ctx)
		if err == nil {
			err = c.connect(connection)
		}
		if err == nil {
			err = c.probeUntilFailure(ctx)
		}
		disconnect()
		if ctx.Err() == nil {
			c.setDown(err)
		}
	}, c.probeInterval)
	return nil
}

// probe requests one protector, which shows that the core answers and permits it.
func (c *core) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request := c.client.CoreV1().RESTClient().Get().AbsPath("/apis/breakwater.dev/v1alpha1/podprotectors").Param("limit", "1").MaxRetries(0)
	if err := request.Do(ctx).Error(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = c.now()
	return nil
}

// probeUntilFailure returns when the core has become unreachable, or ctx ends.
func (c *core) probeUntilFailure(ctx context.Context) (err error) {
	ticker := time.NewTicker(c.probeInterval)
	defer ticker.Stop()
	for failures := 0; failures < maxFailedProbes; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err = c.probe(ctx); err != nil {
			failures++
		} else {
			failures = 0
		}
	}
	return err
}

// connect fills the store from new watches, which run until ctx ends.
func (c *core) connect(ctx context.Context) error {
	connection, err := cluster.New(c.config, func(o *cluster.Options) { o.Scheme, o.Cache, o.Logger = clusters.Scheme(), cacheOptions(), c.log })
	if err != nil {
		return err
	}
	synced, err := c.store.addEventHandlers(ctx, connection.GetCache())
	if err != nil {
		return err
	}
	go func() {
		if err := connection.Start(ctx); err != nil {
			c.log.Error(err, "Stopped watching")
		}
	}()
	timeout, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !toolscache.WaitForCacheSync(timeout.Done(), synced...) {
		return errors.New("the API server did not send all PodProtectors and Cells in time")
	}
	if err := c.store.dropDeleted(ctx, connection.GetCache()); err != nil {
		return err
	}
	go (&denials{client: c.client, store: c.store}).run(ctx)
	c.mu.Lock()
	c.reader, c.tried, c.up = connection.GetCache(), true, true
	c.mu.Unlock()
	c.log.Info("Watching")
	return nil
}

func (c *core) setDown(err error) {
	c.mu.Lock()
	wasUp, wasTried, answered := c.up, c.tried, c.answered
	c.tried, c.up = true, false
	c.mu.Unlock()
	if wasUp {
		c.store.interrupt(answered)
	}
	if wasUp || !wasTried {
		c.log.Info("Core unreachable; showing its last known data", "error", err.Error())
	}
}

// unreachable reports whether the data of the core are not current.
func (c *core) unreachable() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tried && !c.up
}

// read returns the cache of the last connection. The error is a failure of the API server to answer so far.
func (c *core) read() (client.Reader, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.reader == nil {
		return nil, fmt.Errorf("core %s has not answered yet", c.name)
	}
	return c.reader, nil
}

// lastAnswer returns when the core last answered; zero if it has not.
func (c *core) lastAnswer() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.answered
}

// isTried reports whether the first connection was set up or has failed, and hasData whether there are data of the core.
func (c *core) isTried() (tried, hasData bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tried, c.reader != nil
}
