/** A value of JSON. Numbers that JavaScript cannot hold are raw JSON objects (`JSON.rawJSON`) where the browser has these. */
export type Json = unknown;
export type JsonObject = Readonly<Record<string, Json>>;

interface Exact {
  rawJSON?(text: string): object;
  isRawJSON?(value: unknown): boolean;
}
const exact = JSON as Exact;

/** Parses without losing digits; throws SyntaxError. */
export function parseExact(text: string): Json {
  const revive = (_key: string, value: unknown, context?: { readonly source?: string }): unknown => {
    const source = context?.source;
    if (typeof value !== 'number' || source === undefined || exact.rawJSON === undefined) return value;
    return String(value) === source ? value : exact.rawJSON(source);
  };
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown) as Json;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && exact.isRawJSON?.(value) !== true;
}

/** A number, also one of more digits than JavaScript has. */
export function isNumber(value: unknown): boolean {
  return typeof value === 'number' || exact.isRawJSON?.(value) === true;
}

/** Why the text is no JSON object; null where it is one. */
export function objectFault(text: string): string | null {
  try {
    return isObject(parseExact(text)) ? null : 'This has to be one JSON object, as {"name": "value"}';
  } catch (error) {
    return `This is no JSON: ${(error as Error).message}`;
  }
}
