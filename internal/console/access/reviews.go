package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// maxTokenBytes is the longest token that is shown to an apiserver.
	maxTokenBytes = 16 << 10
	// reviewTime bounds one review, reviewsAtOnce how many are under way.
	reviewTime    = 10 * time.Second
	reviewsAtOnce = 16
	// mostTokens and mostRights bound what is remembered.
	mostTokens = 4_096
	mostRights = 65_536
)

// ErrNobody tells that a token is of nobody, or has expired.
var ErrNobody = errors.New("the apiserver does not accept the token")

// Reviews asks the core's apiserver who somebody is and what they may do. Use NewReviews.
type Reviews struct {
	client   kubernetes.Interface
	lifetime time.Duration
	tokens   *memory[[sha256.Size]byte, answer]
	rights   *memory[rightOf, bool]
	flights  singleflight.Group
	turns    chan struct{}
}

type answer struct {
	who Identity
	ok  bool
}

type rightOf struct {
	who   [sha256.Size]byte
	right Right
}

// NewReviews returns reviews that believe what the apiserver said for that long.
func NewReviews(client kubernetes.Interface, lifetime time.Duration, now func() time.Time) *Reviews {
	return &Reviews{
		client: client, lifetime: lifetime, turns: make(chan struct{}, reviewsAtOnce),
		tokens: newMemory[[sha256.Size]byte, answer](now, mostTokens), rights: newMemory[rightOf, bool](now, mostRights),
	}
}

// Known tells whether the apiserver was asked about a token lately.
func (r *Reviews) Known(token string) bool {
	_, known := r.tokens.get(sha256.Sum256([]byte(token)))
	return known
}

// Who returns whose a token is. An error is ErrNobody, or that the apiserver gives no answer.
func (r *Reviews) Who(ctx context.Context, token string) (Identity, error) {
	if token == "" || len(token) > maxTokenBytes {
		return Identity{}, ErrNobody
	}
	key := sha256.Sum256([]byte(token))
	said, known := r.tokens.get(key)
	if !known {
		got, err := r.flight(ctx, "token "+string(key[:]), func(ctx context.Context) (any, error) { return r.reviewToken(ctx, key, token) })
		if err != nil {
			return Identity{}, fmt.Errorf("review a token: %w", err)
		}
		said = got.(answer)
	}
	if !said.ok {
		return Identity{}, ErrNobody
	}
	return said.who, nil
}

func (r *Reviews) reviewToken(ctx context.Context, key [sha256.Size]byte, token string) (answer, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return answer{}, err
	}
	said := answer{ok: review.Status.Authenticated && review.Status.User.Username != ""}
	if said.ok {
		said.who = identify(review.Status.User)
	}
	r.tokens.put(key, said, r.lifetime)
	return said, nil
}

// May tells whether somebody has a right. An error is that the apiserver gives no answer.
func (r *Reviews) May(ctx context.Context, who Identity, right Right) (bool, error) {
	key := rightOf{who.key, right}
	if may, known := r.rights.get(key); known {
		return may, nil
	}
	flight := fmt.Sprintf("right %s %q", who.key[:], right)
	got, err := r.flight(ctx, flight, func(ctx context.Context) (any, error) {
		review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, right.review(who), metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		may := review.Status.Allowed && !review.Status.Denied
		r.rights.put(key, may, r.lifetime)
		return may, nil
	})
	if err != nil {
		return false, fmt.Errorf("review a right: %w", err)
	}
	return got.(bool), nil
}

// flight asks once for all who ask the same at a time, and whoever has no more patience leaves.
func (r *Reviews) flight(ctx context.Context, key string, ask func(context.Context) (any, error)) (any, error) {
	result := r.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTime)
		defer cancel()
		select {
		case r.turns <- struct{}{}:
			defer func() { <-r.turns }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return ask(ctx)
	})
	select {
	case got := <-result:
		return got.Val, got.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
