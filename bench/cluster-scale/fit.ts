/** Costs of N nodes as `each * N + pairs * N * N`. */
export interface Fit {
  readonly each: number;
  readonly pairs: number;
  /** The largest relative deviation of the fit from a measured cost. */
  readonly off: number;
}

/** Fits the costs by least squares of relative errors, without negative terms. */
export function fitOf(points: readonly (readonly [nodes: number, cost: number])[]): Fit {
  const [both, each, pairs] = [solve(points), only(points, 1), only(points, 2)];
  const fits = [both, { each, pairs: 0 }, { each: 0, pairs }].filter((fit) => fit.each >= 0 && fit.pairs >= 0);
  const rated = fits.map((fit) => ({ ...fit, off: Math.max(...points.map((point) => offOf(fit, point))) }));
  return rated.sort((one, other) => one.off - other.off)[0]!;
}

export function costAt({ each, pairs }: Pick<Fit, 'each' | 'pairs'>, nodes: number): number {
  return each * nodes + pairs * nodes * nodes;
}

function offOf(fit: Pick<Fit, 'each' | 'pairs'>, [nodes, cost]: readonly [number, number]): number {
  return cost === 0 ? 0 : Math.abs(costAt(fit, nodes) / cost - 1);
}

/** The normal equations of `each * N / cost + pairs * N * N / cost = 1`. */
function solve(points: readonly (readonly [number, number])[]): Pick<Fit, 'each' | 'pairs'> {
  let [aa, ab, bb, a1, b1] = [0, 0, 0, 0, 0];
  for (const [nodes, cost] of points.filter(([, cost]) => cost > 0)) {
    const [a, b] = [nodes / cost, (nodes * nodes) / cost];
    aa += a * a;
    ab += a * b;
    bb += b * b;
    a1 += a;
    b1 += b;
  }
  const by = aa * bb - ab * ab;
  return by === 0 ? { each: 0, pairs: 0 } : { each: (a1 * bb - b1 * ab) / by, pairs: (aa * b1 - ab * a1) / by };
}

function only(points: readonly (readonly [number, number])[], power: number): number {
  let [squares, sum] = [0, 0];
  for (const [nodes, cost] of points.filter(([, cost]) => cost > 0)) {
    const a = nodes ** power / cost;
    squares += a * a;
    sum += a;
  }
  return squares === 0 ? 0 : sum / squares;
}
