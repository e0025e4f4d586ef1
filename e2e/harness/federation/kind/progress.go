package kind

import (
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	kindlog "sigs.k8s.io/kind/pkg/log"
)

// progress forwards kind's messages to a log, one verbosity level higher, because they are details of our own messages.
type progress struct{ log logr.Logger }

var _ kindlog.Logger = progress{}

func (p progress) Warn(message string)               { p.logMessage("warning: " + message) }
func (p progress) Warnf(format string, args ...any)  { p.Warn(fmt.Sprintf(format, args...)) }
func (p progress) Error(message string)              { p.logMessage("error: " + message) }
func (p progress) Errorf(format string, args ...any) { p.Error(fmt.Sprintf(format, args...)) }
func (p progress) logMessage(message string) {
	p.log.V(1).Info("kind", "says", strings.TrimSpace(message))
}

func (p progress) V(level kindlog.Level) kindlog.InfoLogger {
	return detail{p.log.V(int(level) + 1)}
}

type detail struct{ log logr.Logger }

func (d detail) Info(message string)              { d.log.Info("kind", "says", strings.TrimSpace(message)) }
func (d detail) Infof(format string, args ...any) { d.Info(fmt.Sprintf(format, args...)) }
func (d detail) Enabled() bool                    { return d.log.Enabled() }
