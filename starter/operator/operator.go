// Package operator is the page where people see what waits for them and decide it: a queue, one order explained, and forms that
// ask for exactly the evidence a decision needs.
//
// It must not decide anything nor hold SQL: the store says what there is, the rule behind it says what may be done, and this package
// shows both. It may import order, store, starter's view and starter/api for routes, and internal leaves.
package operator
