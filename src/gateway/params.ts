import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { bodyField } from '../protocol/body.ts';
import { field, type Range, stringValue } from '../protocol/fields.ts';
import { spliceMessage } from '../protocol/splice.ts';

/** A string member of a request's params, with its byte range. */
export interface NamedParam {
  readonly value: string;
  readonly range: Range;
}

/** The string member `key` of `params`, or of its object member `within`. */
export function namedParam(request: Message, key: string, within?: string): NamedParam | GatewayError {
  const { bytes } = request;
  let object: Range | null = request.bodyStart < 0 ? null : { start: request.bodyStart, end: request.bodyEnd };
  if (within !== undefined && object !== null) object = field(bytes, object.start, object.end, within);
  const range = object === null ? null : field(bytes, object.start, object.end, key);
  const value = stringValue(bytes, range);
  if (range !== null && value !== null) return { value, range };
  const path = within === undefined ? key : `${within}.${key}`;
  return new GatewayError('INVALID_PARAMS', `params.${path} must be a string`);
}

/** The request with the param's value replaced; the same request if the value is equal. */
export function withParam(request: Message, param: NamedParam, value: string): Message {
  if (param.value === value) return request;
  return spliceMessage(request, [{ ...param.range, insert: JSON.stringify(value) }]);
}

export function foreignCursor(): GatewayError {
  return new GatewayError('INVALID_PARAMS', 'params.cursor is not a cursor of this list');
}

/** The cursor of a list request: null for the first page, an error if it is not a string. */
export function cursorParam(request: Message): string | null | GatewayError {
  const range = bodyField(request, 'cursor');
  if (range === null || request.bytes.toString('latin1', range.start, range.end) === 'null') return null;
  return stringValue(request.bytes, range) ?? new GatewayError('INVALID_PARAMS', 'params.cursor must be a string');
}
