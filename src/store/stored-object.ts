/** The JSON object that was stored; null for anything else. State may be damaged, and is never worth failing for. */
export function storedObject(value: Buffer): object | null {
  try {
    const stored: unknown = JSON.parse(value.toString());
    return typeof stored === 'object' ? stored : null;
  } catch {
    return null;
  }
}
