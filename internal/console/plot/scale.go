package plot

import (
	"math"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
)

// Tick is a position on an axis and its label.
type Tick struct {
	At    float64
	Label string
}

// frame is the area of the plot within the image, and the ranges that it shows.
type frame struct {
	left, right, top, bottom float64
	from, to                 time.Time
	low, high                float64
}

func (f *frame) x(at time.Time) float64 {
	share := float64(at.Sub(f.from)) / float64(f.to.Sub(f.from))
	return round(f.left + min(max(share, 0), 1)*(f.right-f.left))
}

func (f *frame) y(pods float64) float64 {
	share := (pods - f.low) / (f.high - f.low)
	return round(f.bottom - min(max(share, 0), 1)*(f.bottom-f.top))
}

// round rounds to a tenth of a pixel.
func round(v float64) float64 { return math.Round(v*10) / 10 }

// step returns a round distance between ticks that divides span into at most most steps.
func step(span float64, most int) float64 {
	raw := span / float64(most)
	size := math.Pow(10, math.Floor(math.Log10(max(raw, 1e-9))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if size*factor >= raw {
			return max(size*factor, 1)
		}
	}
	return max(size*10, 1)
}

// bounds returns a range of round numbers around the values. It starts at 0 unless that would leave most of the chart empty.
func bounds(least, most float64) (low, high, every float64) {
	if least > most*2/3 {
		low = max(least-(most-least)-1, 0)
	}
	every = step(max(most-low, 1), 4)
	low = math.Floor(low/every) * every
	high = math.Ceil((most+every/4)/every) * every
	return low, max(high, low+every), every
}

// timeSteps are the distances between ticks of a time axis.
func timeSteps() []time.Duration {
	return []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
		3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	}
}

// minSpan is the shortest time that a chart shows.
const minSpan = 10 * time.Second

// span returns the time from the first to the last data of the window that ends now. A state lasts until now unless a later one is unknown.
func span(points []history.Point, now time.Time, window time.Duration) (from, to time.Time) {
	from, to = now.Add(-window), now
	hasData := func(p history.Point) bool { return p.Last.Known || p.Denied > 0 }
	first := slices.IndexFunc(points, hasData)
	if first < 0 {
		return from, to
	}
	if n := len(points); !hasData(points[n-1]) && points[n-1].At.After(from) {
		to = points[n-1].At
	}
	if points[first].At.After(from) {
		from = points[first].At
	}
	if latest := to.Add(-minSpan); from.After(latest) {
		from = latest
	}
	return from, to
}

// timeTicks returns about most ticks at round times in UTC.
func (f *frame) timeTicks(most int) (ticks []Tick) {
	every, layout := 24*time.Hour, "15:04"
	for _, s := range timeSteps() {
		if int(f.to.Sub(f.from)/s) <= most {
			every = s
			break
		}
	}
	if every < time.Minute {
		layout = "15:04:05"
	}
	for at := f.from.Truncate(every).Add(every); !at.After(f.to); at = at.Add(every) {
		ticks = append(ticks, Tick{At: f.x(at), Label: at.UTC().Format(layout)})
	}
	return ticks
}
