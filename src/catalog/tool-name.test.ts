import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TOOL_NAME_DELIMITER } from '../model/names.ts';
import { bridgePrefixed, parsePrefixedTool, prefixTool, toolNameFault, withoutBridgePrefix } from './tool-name.ts';

test('S2.2 S2.3 check:D1 prefixes with two underscores and checks nothing', () => {
  assert.equal(TOOL_NAME_DELIMITER, '__');
  assert.equal(prefixTool('server', 'tool'), 'server__tool');
  assert.equal(prefixTool('', ''), '__');
  assert.equal(prefixTool('a__b', 'c d'), 'a__b__c d');
});

test('S2.4 check:D1 parses at the first delimiter, accepts empty parts, refuses what has none in the known words', () => {
  assert.deepEqual(parsePrefixedTool('a__b__c'), { server: 'a', tool: 'b__c' });
  assert.deepEqual(parsePrefixedTool('a___b'), { server: 'a', tool: '_b' });
  assert.deepEqual(parsePrefixedTool('__tool'), { server: '', tool: 'tool' });
  assert.deepEqual(parsePrefixedTool('server__'), { server: 'server', tool: '' });
  assert.throws(() => parsePrefixedTool('plain'), {
    message: 'invalid tool name format: plain (expected agent__tool)',
  });
});

test('the names of in-process bridges', () => {
  assert.equal(bridgePrefixed(prefixTool('memory', 'read')), 'mcp__memory__read');
  assert.equal(withoutBridgePrefix('mcp__memory__read'), 'memory__read');
  assert.equal(withoutBridgePrefix('memory__read'), null);
});

test('says why a name cannot be offered', () => {
  assert.equal(toolNameFault('ok.name/with-all_9'), null);
  assert.equal(toolNameFault('x'.repeat(128)), null);
  assert.match(toolNameFault('') ?? '', /empty/);
  assert.match(toolNameFault('x'.repeat(129)) ?? '', /128/);
  assert.match(toolNameFault('a b') ?? '', /characters/);
  assert.match(toolNameFault('a\n') ?? '', /characters/);
});
