package plot

import (
	"math"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
)

// Tick is a place on an axis, and what is written there.
type Tick struct {
	At    float64
	Label string
}

// frame is the place of the plot in a picture, and what it shows.
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

// round keeps a tenth of a pixel.
func round(v float64) float64 { return math.Round(v*10) / 10 }

// step is a round distance of ticks, so that a range has at most so many.
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

// bounds are a range of round numbers around values, from 0 unless that would leave most of the plot empty.
func bounds(least, most float64) (low, high, every float64) {
	if least > most*2/3 {
		low = max(least-(most-least)-1, 0)
	}
	every = step(max(most-low, 1), 4)
	low = math.Floor(low/every) * every
	high = math.Ceil((most+every/4)/every) * every
	return low, max(high, low+every), every
}

// timeSteps are the distances of ticks of a time axis.
func timeSteps() []time.Duration {
	return []time.Duration{
		time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	}
}

// Window is how much of a window to show: less, while nothing is known of most of it.
func Window(points []history.Point, now time.Time, most time.Duration) time.Duration {
	if len(points) == 0 {
		return most
	}
	known := now.Sub(points[0].At)
	for _, length := range append([]time.Duration{2 * time.Minute}, timeSteps()[1:]...) {
		if length >= known {
			return min(length, most)
		}
	}
	return most
}

// timeTicks are at most so many, at round times of UTC.
func (f *frame) timeTicks(most int) (ticks []Tick) {
	every := 24 * time.Hour
	for _, s := range timeSteps() {
		if int(f.to.Sub(f.from)/s) <= most {
			every = s
			break
		}
	}
	for at := f.from.Truncate(every).Add(every); !at.After(f.to); at = at.Add(every) {
		ticks = append(ticks, Tick{At: f.x(at), Label: at.UTC().Format("15:04")})
	}
	return ticks
}
