/** The median; 0 without values. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Interpolates between the two nearest values; 0 without values. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const [below, above] = [sorted[Math.floor(at)] ?? 0, sorted[Math.ceil(at)] ?? 0];
  return below + (above - below) * (at - Math.floor(at));
}
