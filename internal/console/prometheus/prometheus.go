// Package prometheus reads the history of protectors from Prometheus, for the time before the console started.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
)

const (
	// queryTimeout is how long Prometheus may take for one query. A page waits for it.
	queryTimeout = 3 * time.Second
	// answerLifetime is how long answers and failures are cached, and maxAnswers how many.
	answerLifetime = 30 * time.Second
	maxAnswers     = 512
)

// Options say where Prometheus is.
type Options struct {
	URL string
	// TokenFile and CAFile are optional. They are reloaded when they change.
	TokenFile, CAFile string
	// CoreLabel is the label with the name of the core. Empty if Prometheus has the metrics of one core.
	CoreLabel string
}

// Validate returns an error that names the flag with an invalid value.
func (o Options) Validate() error {
	parsed, err := url.Parse(o.URL)
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("--prometheus-url %q: want http://HOST or https://HOST", o.URL)
	case o.TokenFile != "" && parsed.Scheme != "https":
		return errors.New("--prometheus-token-file: tokens are sent over TLS only: want a --prometheus-url with https")
	case o.CoreLabel != "" && !model.LegacyValidation.IsValidLabelName(o.CoreLabel):
		return fmt.Errorf("--prometheus-core-label %q is not the name of a label", o.CoreLabel)
	}
	return nil
}

// Reader reads histories. Use New.
type Reader struct {
	options Options
	api     promv1.API
	asking  singleflight.Group
	answers *cache.LRUExpireCache
}

type answer struct {
	points []history.Point
	err    error
}

// clock implements cache.Clock.
type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// New returns a Reader of a valid configuration.
func New(options Options, now func() time.Time) (*Reader, error) {
	transport, err := rest.TransportFor(&rest.Config{
		Host: options.URL, BearerTokenFile: options.TokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: options.CAFile},
	})
	if err != nil {
		return nil, fmt.Errorf("--prometheus-token-file, --prometheus-ca-file: %w", err)
	}
	client, err := api.NewClient(api.Config{Address: options.URL, Client: &http.Client{Transport: transport}})
	if err != nil {
		return nil, fmt.Errorf("--prometheus-url: %w", err)
	}
	return &Reader{options: options, api: promv1.NewAPI(client), answers: cache.NewLRUExpireCacheWithClock(maxAnswers, clock(now))}, nil
}

// Points returns the history of a protector in a window that ends at a time. Answers are up to half a minute old.
func (r *Reader) Points(ctx context.Context, core string, key types.NamespacedName, until time.Time, window time.Duration) ([]history.Point, error) {
	id := core + "/" + key.String() + "/" + window.String()
	got, known := r.answers.Get(id)
	if !known {
		got, _, _ = r.asking.Do(id, func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
			defer cancel()
			var a answer
			a.points, a.err = r.query(ctx, core, key, until, window)
			r.answers.Add(id, a, answerLifetime)
			return a, nil
		})
	}
	a, _ := got.(answer)
	return a.points, a.err
}

// query asks for the readings themselves instead of values at steps: Prometheus would fill gaps of up to five minutes.
func (r *Reader) query(ctx context.Context, core string, key types.NamespacedName, until time.Time, window time.Duration) ([]history.Point, error) {
	protector := "protector=" + strconv.Quote(key.String())
	gauges := `{__name__=~"breakwater_protector_(available|floor|reservations)",` + protector
	if r.options.CoreLabel != "" {
		gauges += "," + r.options.CoreLabel + "=" + strconv.Quote(core)
	}
	counters := "breakwater_webhook_refusals_total{" + protector + ",core=" + strconv.Quote(core)
	var readings history.Readings
	for _, selector := range []string{gauges, counters} {
		expression := fmt.Sprintf("%s}[%ds]", selector, int(window.Seconds()))
		value, _, _, err := r.api.Query(ctx, expression, until)
		if err != nil {
			return nil, fmt.Errorf("query Prometheus: %w", err)
		}
		matrix, ok := value.(model.Matrix)
		if !ok {
			return nil, fmt.Errorf("query Prometheus: got a %T, want a matrix", value)
		}
		for _, series := range matrix {
			add(&readings, series)
		}
	}
	return readings.Points(until), nil
}

func add(to *history.Readings, series *model.SampleStream) {
	var values []history.Reading
	for _, pair := range series.Values {
		values = append(values, history.Reading{At: pair.Timestamp.Time().UTC(), Value: float64(pair.Value)})
	}
	switch series.Metric[model.MetricNameLabel] {
	case "breakwater_protector_available":
		to.Available = append(to.Available, values...)
	case "breakwater_protector_floor":
		to.Floor = append(to.Floor, values...)
	case "breakwater_protector_reservations":
		to.Reserved = append(to.Reserved, values...)
	default:
		to.Denied = append(to.Denied, values)
	}
}
