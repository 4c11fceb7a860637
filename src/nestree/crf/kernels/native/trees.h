// Single trees for one sentence at a time: the best tree (CKY), random ones, and the k best.

// Walks a binary tree from the root, left to right. `split(i, j)` names the last word of the left child and
// `label(i, j)` the node's label; each node is written into the chart `nodes` [n, n].
static void clear_nodes(const Call &call, int64_t b) {
  const int64_t size = call.n * call.n;
  for (int64_t draw = 0; draw < call.draws; ++draw)
    std::fill_n(call.nodes + (draw * call.batch + b) * size, size, int64_t(-1));
}

template <class Split, class Label>
static void walk(int64_t *nodes, int64_t n, int64_t m, std::vector<std::pair<int64_t, int64_t>> &stack, Split split,
                 Label label) {
  stack.clear();
  stack.push_back({0, m - 1});
  while (!stack.empty()) {
    auto [i, j] = stack.back();
    stack.pop_back();
    nodes[i * n + j] = label(i, j);
    if (i == j)
      continue;
    const int64_t middle = split(i, j);
    stack.push_back({middle + 1, j});
    stack.push_back({i, middle});
  }
}

struct MaxPlus {
  static Lanes nothing() { return all(NEVER); }
  static Lanes add(Lanes best, Lanes left, Lanes right) { return larger(left + right, best); }
  static Lanes weigh(Lanes best, Lanes weight) { return best + weight; }
};

template <class T> class BestTreeWorker {
public:
  BestTreeWorker(Call &call, int64_t longest)
      : call_(call), weights_(diagonals_size(longest)), cells_(diagonals_size(longest)) {}

  // Only the best scores are kept; the splits are found again along the best tree, which has 2m - 1 nodes of the
  // m (m + 1) / 2 that the chart has.
  bool run(int64_t b) {
    clear_nodes(call_, b);
    const int64_t m = call_.lengths[b];
    const Diagonals weight(weights_.data(), m);
    best_ = Diagonals(cells_.data(), m);
    std::fill_n(cells_.begin(), diagonals_size(m), NEVER);
    if (!best_labels(b, m, weight))
      return false;
    std::copy_n(weight.of_width(0), m, best_.of_width(0));
    fill_upward<MaxPlus>(best_, weight, m, [](int64_t, int, int64_t, int) {});
    call_.log_partition[b] = best_.at(0, m - 1);
    if (best_.at(0, m - 1) == NEVER)
      return true;
    walk(
        call_.nodes + b * call_.n * call_.n, call_.n, m, stack_, [&](int64_t i, int64_t j) { return best_split(i, j); },
        [&](int64_t i, int64_t j) { return best_label(b, i, j); });
    return true;
  }

private:
  // The best label's score of every span; false if a score is NaN or +inf.
  bool best_labels(int64_t b, int64_t m, const Diagonals &weight) {
    const Strides &at = call_.scores_at;
    const int64_t cells = triangle(m), stride = cells;
    labels_.resize(call_.labels * stride);
    gather_sentence(static_cast<const T *>(call_.scores) + b * at.sentence, at, m, call_.labels, labels_.data(),
                    stride);
    T *best = labels_.data();
    int not_finite = 0;
    for (int64_t k = 0; k < call_.labels; ++k) {
      const T *label = labels_.data() + k * stride;
      for (int64_t c = 0; c < cells; ++c) {
        not_finite |= !(label[c] < std::numeric_limits<T>::infinity());
        best[c] = label[c] > best[c] ? label[c] : best[c];
      }
    }
    std::fill_n(weights_.begin(), diagonals_size(m), NEVER);
    for (int64_t i = 0, cell = 0; i < m; ++i)
      for (int64_t w = 0; w < m - i; ++w)
        weight.of_width(w)[i] = best[cell++];
    return !not_finite;
  }

  int64_t best_label(int64_t b, int64_t i, int64_t j) const {
    int64_t best = 0;
    for (int64_t k = 1; k < call_.labels; ++k)
      if (score_at<T>(call_, b, i, j, k) > score_at<T>(call_, b, i, j, best))
        best = k;
    return best;
  }

  int64_t best_split(int64_t i, int64_t j) const {
    int64_t best = i;
    double largest = NEVER;
    for (int64_t split = i; split < j; ++split) {
      const double sum = best_.at(i, split) + best_.at(split + 1, j);
      if (sum > largest) {
        largest = sum;
        best = split;
      }
    }
    return best;
  }

  Call &call_;
  Diagonals best_;
  std::vector<double> weights_, cells_;
  std::vector<T> labels_; // [label][cell]
  std::vector<std::pair<int64_t, int64_t>> stack_;
};

// Draws trees from the root downward: a split with probability proportional to its share of the inside value, a
// label with its probability. Each choice takes the next of the tree's uniform numbers.
template <class T> class SampleWorker {
public:
  SampleWorker(Call &call, int64_t longest)
      : call_(call), sums_(call, longest, false), terms_(longest), probability_(call.labels) {}

  bool run(int64_t b) {
    clear_nodes(call_, b);
    if (!sums_.inside(b))
      return false;
    if (call_.log_partition[b] == NEVER)
      return true;
    const int64_t m = call_.lengths[b], n = call_.n;
    for (int64_t draw = 0; draw < call_.draws; ++draw) {
      const double *u = call_.uniforms + (draw * call_.batch + b) * 2 * (2 * n - 1);
      walk(
          call_.nodes + (draw * call_.batch + b) * n * n, n, m, stack_,
          [&](int64_t i, int64_t j) { return i + pick(splits(i, j) + i, j - i, *u++); },
          [&](int64_t i, int64_t j) {
            log_weight<T>(call_, 0, b, i, j, probability_.data());
            return pick(probability_.data(), call_.labels, *u++);
          });
    }
    return true;
  }

private:
  const double *splits(int64_t i, int64_t j) {
    if (sums_.in_logs())
      return sums_.log_chart().split_probabilities(i, j);
    const Diagonals &beta = sums_.beta();
    for (int64_t split = i; split < j; ++split)
      terms_[split] = beta.at(i, split) * beta.at(split + 1, j);
    return terms_.data();
  }

  // The index that `u` in [0, 1) hits when the weights are laid end to end; never one of weight 0.
  static int64_t pick(const double *weights, int64_t count, double u) {
    double total = 0;
    for (int64_t t = 0; t < count; ++t)
      total += weights[t];
    const double target = u * total;
    double sum = 0;
    int64_t last = 0;
    for (int64_t t = 0; t < count; ++t) {
      if (weights[t] == 0)
        continue;
      last = t;
      sum += weights[t];
      if (target < sum)
        break;
    }
    return last;
  }

  Call &call_;
  SumWorker<T> sums_;
  std::vector<double> terms_, probability_;
  std::vector<std::pair<int64_t, int64_t>> stack_;
};

// The k best trees. Every span keeps its k best subtrees; the t-th best of a span needs at most the pairs of ranks
// (a, b) of its parts with (a + 1) (b + 1) <= k.
template <class T> class BestTreesWorker {
public:
  BestTreesWorker(Call &call, int64_t longest)
      : call_(call), k_(call.draws), lists_(triangle(longest) * call.draws), sizes_(triangle(longest)) {}

  bool run(int64_t b) {
    clear_nodes(call_, b);
    const int64_t m = m_ = call_.lengths[b];
    for (int64_t i = m - 1; i >= 0; --i)
      for (int64_t j = i; j < m; ++j)
        if (!fill(b, i, j))
          return false;
    call_.log_partition[b] = sizes_[cell(0, m - 1)] ? list(0, m - 1)->score : NEVER;
    for (int64_t rank = 0; rank < sizes_[cell(0, m - 1)]; ++rank)
      write(call_.nodes + (rank * call_.batch + b) * call_.n * call_.n, 0, m - 1, rank);
    return true;
  }

private:
  struct Subtree {
    double score;
    int32_t label, split, left, right; // left and right: ranks in the children's lists
  };

  int64_t cell(int64_t i, int64_t j) const { return i * m_ - i * (i - 1) / 2 + j - i; }
  Subtree *list(int64_t i, int64_t j) { return lists_.data() + cell(i, j) * k_; }

  // Leaves the k best of `candidates_` in front, best first; of equals, the one found first.
  void keep_best(std::vector<Subtree> &candidates) const {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Subtree &a, const Subtree &b) { return a.score > b.score; });
    if (static_cast<int64_t>(candidates.size()) > k_)
      candidates.resize(k_);
  }

  bool fill(int64_t b, int64_t i, int64_t j) {
    labels_.clear();
    for (int64_t k = 0; k < call_.labels; ++k) {
      const double s = score_at<T>(call_, b, i, j, k);
      if (s != s || s == -NEVER)
        return false;
      if (s != NEVER)
        labels_.push_back({s, static_cast<int32_t>(k), 0, 0, 0});
    }
    keep_best(labels_);
    children_.clear();
    if (i == j)
      children_.push_back({0.0, 0, 0, 0, 0});
    for (int64_t split = i; split < j; ++split) {
      const int64_t lefts = sizes_[cell(i, split)], rights = sizes_[cell(split + 1, j)];
      const Subtree *left = list(i, split), *right = list(split + 1, j);
      for (int64_t p = 0; p < lefts; ++p)
        for (int64_t q = 0; q < rights && (p + 1) * (q + 1) <= k_; ++q)
          children_.push_back({left[p].score + right[q].score, 0, static_cast<int32_t>(split), static_cast<int32_t>(p),
                               static_cast<int32_t>(q)});
    }
    keep_best(children_);
    whole_.clear();
    for (size_t p = 0; p < children_.size(); ++p)
      for (size_t q = 0; q < labels_.size() && static_cast<int64_t>((p + 1) * (q + 1)) <= k_; ++q) {
        Subtree tree = children_[p];
        tree.score += labels_[q].score;
        tree.label = labels_[q].label;
        whole_.push_back(tree);
      }
    keep_best(whole_);
    std::copy(whole_.begin(), whole_.end(), list(i, j));
    sizes_[cell(i, j)] = static_cast<int64_t>(whole_.size());
    return true;
  }

  void write(int64_t *nodes, int64_t i, int64_t j, int64_t rank) {
    const Subtree &tree = list(i, j)[rank];
    nodes[i * call_.n + j] = tree.label;
    if (i == j)
      return;
    write(nodes, i, tree.split, tree.left);
    write(nodes, tree.split + 1, j, tree.right);
  }

  Call &call_;
  int64_t k_, m_ = 0;
  std::vector<Subtree> lists_, labels_, children_, whole_;
  std::vector<int64_t> sizes_;
};
