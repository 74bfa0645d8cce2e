import type { Era } from '../model/message.ts';
import type { Capability } from '../model/server-catalog.ts';
import { type HeaderParams, scanHeaderParams } from '../protocol/param-headers.ts';
import { toolToStateful, wrapsOutput } from '../protocol/stateful/tool-to-stateful.ts';
import { toolToStateless } from '../protocol/stateless/tool-to-stateless.ts';
import { toolWithTasks } from '../protocol/tasks/extension.ts';

/** What a tool's definition says that calls of it depend on. */
export interface ToolFacts {
  /** Parameters that are mirrored into headers, or why the declaration is void. */
  readonly headers: HeaderParams;
  /** Its structured results are wrapped for stateful clients. */
  readonly wrapped: boolean;
}

const FACTS = new WeakMap<Capability, ToolFacts>();

/** Read once per definition. */
export function toolFacts(tool: Capability): ToolFacts {
  let facts = FACTS.get(tool);
  if (facts === undefined) {
    facts = { headers: scanHeaderParams(tool.bytes), wrapped: wrapsOutput(tool.bytes) };
    FACTS.set(tool, facts);
  }
  return facts;
}

/**
 * The definition in the words of the client's era; null where clients of that era could not use it. `tasks` says that
 * the server answers with tasks: in 2026-07-28 any of its tools may, which a stateful client is told tool by tool.
 */
export function toolFor(era: Era, tool: Capability, serverEra: Era, tasks: boolean): Buffer | null {
  // A client must drop such a tool (streamable-http §Custom Headers), so it is not shown in the first place.
  if (era === 'stateless' && !toolFacts(tool).headers.ok) return null;
  if (era === serverEra) return tool.bytes;
  if (era === 'stateless') return toolToStateless(tool.bytes);
  return tasks ? toolWithTasks(toolToStateful(tool.bytes)) : toolToStateful(tool.bytes);
}
