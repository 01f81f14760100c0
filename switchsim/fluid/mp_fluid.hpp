// The fluid model of MP-RDMA's congestion control (paper 3.2.1, equations 1 to 8) and its
// integrator.
//
// N flows in step, each with windows w_j on M paths; cwnd is their sum. Equation 6 is linear in the
// window of a virtual path as long as its mark is that of its path, so the virtual paths of one
// path are one variable here, and with one path equations 6 to 8 are equations 1 to 3:
//
//   dw_j/dt = w_j / (cwnd R_j) (1 - F_j(t - R*_j)) - w_j / (2 R_j) F_j(t - R*_j)        (1, 6)
//   dq_j/dt = N w_j P / R_j - C_j, and not below an empty queue                         (2, 7)
//   R_j     = d_j + q_j / C_j                                                           (3, 8)
//   F_j     = RED's curve at q_j                                                        (5)
//   R*_j    = d_j + q*_j / C_j, q* of the fix point: constant, as in the paper
//
// P: bytes of a packet on the wire. At rest F_j = 2 / (cwnd + 2) and q = N W P - C d. (The paper's
// equation 4 has half of that: with W = 2 (1 - F) / F it follows from q = N W - C d alone.)
//
// Pure: numbers in, numbers out; seconds and bytes. A queue has no upper limit here.
#pragma once

#include <cstddef>
#include <vector>

namespace mprdma::fluid {

struct Red {
  double kmin_bytes = 0;
  double kmax_bytes = 0;  // = kmin: a step
  double pmax = 1;
  [[nodiscard]] double marked(double queue_bytes) const;
};

struct Path {
  double bytes_per_s = 0;  // C
  double base_rtt_s = 0;   // d
  Red red;
};

struct Model {
  double flows = 1;
  double packet_bytes = 0;
  std::vector<Path> paths;
};

// By path.
struct State {
  std::vector<double> window;  // packets of one flow
  std::vector<double> queue_bytes;
  [[nodiscard]] double cwnd() const;
};

// Where dw = dq = 0. With a step the queue is the step's and the mark any that holds it there.
struct FixPoint {
  double cwnd = 0;
  double marked = 0;
  State state;
};
// Requires at least one path that the flows can fill: N windows of one packet do not.
FixPoint fix_point(const Model& model);

// The right hand sides, at this state and these (delayed) marks.
State derivative(const Model& model, const State& state, const std::vector<double>& marked);

struct Run {
  double duration_s = 0;
  double step_s = 1e-6;     // of the integrator (Runge and Kutta, fourth order); well below R*
  double sample_s = 1e-5;   // of the trace
  double initial_cwnd = 1;  // spread over the paths by their share of `initial_share`
  std::vector<double> initial_share = {};  // empty: evenly
};

struct Trace {
  std::vector<double> time_s;
  std::vector<double> cwnd;
  std::vector<std::vector<double>> queue_bytes;  // [path][point]
  std::vector<std::vector<double>> marked;
};
// From empty queues; cwnd never below 1, as in the algorithm.
Trace integrate(const Model& model, const Run& run);

struct Moments {
  double mean = 0;
  double deviation = 0;
};
// The moments of the points from `from_s` on.
Moments moments(const Trace& trace, const std::vector<double>& values, double from_s);

}  // namespace mprdma::fluid
