package disasters_test

// createCountedProtector creates a protector and the given number of pods. It waits until the protector has its finalizer and is counted,
// and until all webhooks have received it.
func (l fixture) createCountedProtector(floor, pods int) {
	l.Helper()
	l.CreateProtector(floor)
	l.waitForFinalizer("web")
	l.CreateBarePods(l.Application(pods))
	l.waitForWebhooks()
}

// waitForWebhooks waits until every webhook has received the fixture's protector. After a disaster, the watch of a webhook may lag by
// seconds.
func (l fixture) waitForWebhooks() {
	l.Helper()
	l.WaitForWebhooks(l.Cells[0], l.ExistingPods(l.Cells[0])[0])
}
