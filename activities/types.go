package activities

import "orderflow/store"

// What database steps return. Workflows know these by the steps that return them, not by the store.
type (
	// Snapshot is what a run of the workflow decides by.
	Snapshot = store.Snapshot
	// AttemptHead is an attempt that is not over.
	AttemptHead = store.AttemptHead
	// RefundHead is a refund that is not over.
	RefundHead = store.RefundHead
	// UnitHead is a unit to work on.
	UnitHead = store.UnitHead
	// ReviewHead is an open review.
	ReviewHead = store.ReviewHead
	// Reflected is what ReflectPayment made of an attempt's answers.
	Reflected = store.Reflected
	// RefundReflected is what ReflectRefund made of a refund's answers.
	RefundReflected = store.RefundReflected
	// Provided is what FulfillInternal did.
	Provided = store.Provided
)
