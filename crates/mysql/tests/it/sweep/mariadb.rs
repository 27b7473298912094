//! MariaDB's catalog: databases in which each object sets something to another value than the default.

/// A database, and the statements that fill it.
pub(crate) const DATABASES: &[(&str, &str)] = &[
    (
        "types",
        r"CREATE TABLE t (a tinyint unsigned, b smallint zerofill, f float(9,2), ff float(30,5), d double(12,3), dd double unsigned, y year, ti time(3), n decimal(65,0), nn decimal(30,30), bt bit(64),
  c char(3) character set ucs2 collate ucs2_bin, v varchar(10) character set cp932, x text character set gbk, e enum('a','b') character set utf16 not null default 'b', s set('q','r','') default 'q,r', bin binary(5) default 'ab', vb varbinary(10) default x'00ff', tb tinyblob, mb mediumblob, lb longblob, tt tinytext, mt mediumtext, lt longtext);
SET sql_mode='';
INSERT INTO t(a,f,ff,d,n,nn,bt,c,e,s) VALUES (255,9999999.99,1e24,999999999.999,-99999999999999999999999999999999999999999999999999999999999999999,0.999999999999999999999999999999,b'1111111111111111111111111111111111111111111111111111111111111111','abc','a',''),(0,-9999999.99,-1e-5,-0.001,0,0,0,'','b','q'),(NULL,16777217,0.00001,0,NULL,NULL,NULL,NULL,'a',NULL);",
    ),
    (
        "indexes",
        r"CREATE TABLE t (a text, b blob, c varchar(500), id int primary key, key (a(10)), unique key ub (b(20)), unique key hu (a) using hash, fulltext key (c), key desc_ (c(5) desc, id), key ign (id, c(3)) ignored comment 'it''s') engine=innodb;
insert into t values ('x','y','z zz zzzz',1);",
    ),
    (
        "engines",
        r#"CREATE TABLE t (a int auto_increment, b int, c varchar(20), primary key (b, a), key (c) , fulltext(c)) engine=myisam row_format=fixed pack_keys=1 checksum=1 delay_key_write=1 min_rows=5 max_rows=1000 avg_row_length=50 stats_sample_pages=10 comment='x';
insert into t(b,c) values (1,'a'),(1,'b'),(2,'c');
CREATE TABLE g (p point not null, spatial key (p)) engine=myisam;
insert into g values (point(1,2));
CREATE TABLE hk (a int, key using btree(a) ) engine=memory;
CREATE TABLE ar (id int auto_increment primary key, x text) engine=archive;
insert into ar(x) values ('q'),('r');
create table cs (a int not null, b varchar(20) not null) engine=csv;
insert into cs values (1,'x,\"y'),(2,'');
create table bh (a int) engine=blackhole;
create table ari (a int, b text, key(a)) engine=aria transactional=0 page_checksum=0 row_format=dynamic;
insert into ari values (1,'x');"#,
    ),
    (
        "options",
        r"SET sql_mode='';
CREATE TABLE t (a int primary key, b text /*!100301 compressed*/, c varchar(100) compressed=zlib) engine=innodb row_format=compressed key_block_size=4;
CREATE TABLE pc (a int primary key, b text) page_compressed=1 page_compression_level=9;
CREATE TABLE st (a int primary key) stats_persistent=1 stats_auto_recalc=0 stats_sample_pages=33;
CREATE TABLE red (a int primary key, b varchar(300)) row_format=redundant;
CREATE TABLE enc (a int primary key) encrypted=no;
insert into t values (1,repeat('x',1000),'y');
insert into pc values (1,'z');",
    ),
    (
        "defaults",
        r"CREATE FUNCTION f1() RETURNS int DETERMINISTIC RETURN 5;
CREATE TABLE t (id int primary key, a int default (1+2*3), b varchar(40) default uuid(), c timestamp(3) default current_timestamp(3) on update current_timestamp(3), d date default curdate(), e datetime default (now() + interval 1 day), g text default 'some ''text', h blob default x'00ff', i json default '[]', j int default (a + 1), k int check (k > 0 and k <> 7), l int invisible default 3, m int not null invisible default 4, n int as (a * 2) persistent invisible, o bigint as (id) virtual unique, constraint `c c` check (a < 100 or b like '%x%'));
insert into t (id,k) values (1,1),(2,2);",
    ),
    (
        "partitions",
        r"CREATE TABLE r (a int, b varchar(20), primary key(a)) partition by range (a) (partition p0 values less than (10) comment='c1' , partition p1 values less than (20) max_rows=100, partition pm values less than maxvalue);
CREATE TABLE rc (a int, b date) partition by range columns (a,b) (partition p0 values less than (1,'2020-01-01'), partition p1 values less than (maxvalue,maxvalue));
create table l (a int) partition by list (a) (partition p0 values in (1,2,null), partition p1 default);
create table lc (a varchar(10) character set latin1) partition by list columns (a) (partition p0 values in ('a','é'), partition p1 values in ('b'));
create table h (a int) partition by linear hash (a+1) partitions 5;
create table k (a int primary key, b int) partition by linear key algorithm=2 () partitions 3;
create table s (a date, b int) partition by range (to_days(a)) subpartition by key (b) (partition p0 values less than (to_days('2020-01-01')) (subpartition s0, subpartition s1), partition p1 values less than maxvalue (subpartition s2, subpartition s3));
insert into r values (1,'a'),(15,'b'),(100,'c');
insert into l values (1),(null),(77);
insert into lc values ('é'),('b');
insert into h values (1),(2);
insert into s values ('2019-01-01',1),('2021-01-01',2);
create table ut (a timestamp not null) partition by range (unix_timestamp(a)) (partition p0 values less than (unix_timestamp('2020-01-01 00:00:00')), partition p1 values less than maxvalue);
insert into ut values ('2019-12-31 23:30:00'),('2020-01-01 00:30:00');",
    ),
    (
        "versions",
        r"set timestamp=1700000000;
create table v (a int primary key, b int without system versioning, c text) with system versioning partition by system_time limit 2 (partition p0 history, partition p1 history, partition pc current);
insert into v values (1,1,'x');
set timestamp=1700000100;
update v set c='y';
set timestamp=1700000200;
update v set c='z';
set timestamp=1700000300;
delete from v;
create table vi (a int, key (a)) with system versioning partition by system_time interval 1 month starts '2023-01-01 00:00:00' auto;
insert into vi values (1);
set timestamp=1720000000;
update vi set a=2;
create table vs (id int primary key, x int, st timestamp(6) as row start invisible, en timestamp(6) as row end invisible, period for system_time(st,en), fulltext key (t2), t2 text) with system versioning;
insert into vs(id,x,t2) values (1,1,'abc');
set timestamp=1720000100;
update vs set x=2;
create sequence vseq;
create table vd (id int default nextval(vseq) primary key, z int) with system versioning;
insert into vd(z) values (1);
set timestamp=1720000200;
update vd set z=2;
set timestamp=default;
create table trx (a int, s bigint unsigned as row start, e bigint unsigned as row end, period for system_time(s,e)) with system versioning engine=innodb;
insert into trx(a) values (1);
update trx set a=2;",
    ),
    (
        "periods",
        r"create table a (id int, s date, e date, period for p(s,e), primary key (id, p without overlaps));
insert into a values (1,'2020-01-01','2020-02-01'),(1,'2020-02-01','2020-03-01');
create table ab (id int primary key, s datetime(6), e datetime(6), x int, period for p(s,e)) with system versioning;
insert into ab values (1,'2020-01-01','2020-02-01',3);
create table ac (id int, s date, e date, period for p(s,e)) with system versioning;
insert into ac values (1,'2020-01-01','2020-02-01');
delete from ac for portion of p from '2020-01-10' to '2020-01-11' ;",
    ),
    (
        "sequences",
        r"create sequence s1 start with 100 minvalue -10 maxvalue 1000 increment 7 cache 3 cycle;
select nextval(s1);
alter sequence s1 restart 5;
create sequence s2 maxvalue 3 nocache nocycle;
select nextval(s2);
select nextval(s2);
select nextval(s2);
create sequence s3 increment -5 start with -1 ;
select nextval(s3);
create sequence s4 start with 5 minvalue 1 maxvalue 6 cycle nocache;
select nextval(s4);
select nextval(s4);
select nextval(s4);
create sequence s5 engine=aria comment='hi';
create sequence s6 increment 0;
select nextval(s6);
create sequence s7 start with 50;
create sequence s8 start with 100;
select setval(s8, 500);
create sequence s9 start with 100 minvalue 1;
alter sequence s9 restart 3;",
    ),
    (
        "packages",
        r"set sql_mode=oracle;
delimiter //
create package pk as function f1(a int) return int; procedure p1; end;
//
create package body pk as v int := 5; function f1(a int) return int as begin return a+v; end; procedure p1 as begin select f1(1); end; begin v := 6; end;
//
create procedure op(a in int, b out varchar2(20)) as x t.a%type; begin b := 'x' || a; end;
//
create function of2(a number) return number as begin return a; end;
//
delimiter ;
create table t (a number(10), b varchar2(20));
set sql_mode=default;",
    ),
    (
        "routines",
        r"delimiter //
create aggregate function agg(x int) returns int begin declare s int default 0; declare continue handler for not found return s; loop fetch group next row; set s = s + x; end loop; end//
create procedure p1(inout a varchar(10) character set latin1 collate latin1_bin, out b enum('x','y')) sql security invoker modifies sql data comment 'cö''m' begin /* a comment */ -- another
 # hash
 select 'x;' ; end//
create function `we``ird (name)` (`p 1` int) returns varchar(10) character set utf8mb4 collate utf8mb4_bin not deterministic no sql return 'ä'//
create procedure noargs() begin end//
create function shown() returns int deterministic return shown2()//
create function uses() returns int reads sql data return (select count(*) from t)//
create table t (a int)//
create view v as select uses() as u, (select shown()) as w//
delimiter ;",
    ),
    (
        "views",
        r#"create table t (a int primary key, b varchar(10));
create or replace algorithm=temptable sql security invoker view v1 as select a, b as `x y` from t;
create view v2 as select * from v1;
create algorithm=merge view v3 as select a from t where a > 1 with local check option;
create view v4 (`co``l`, `d`) as select a, 'it''s' from t where a>0 with cascaded check option;
create view z9 as select 1 as one;
create view a1 as select * from z9;
create view z8 as select * from a1;
create view a0 as select * from z8;
set names latin1;
create view vl as select 'x' collate latin1_bin as c;
set names utf8mb4;
create view vcte as with recursive q as (select 1 as n union all select n+1 from q where n<5) select * from q;
create view vw as select a, row_number() over (order by a) r from t;
set sql_mode='PIPES_AS_CONCAT,ANSI_QUOTES';
create view vp as select b || 'x' as c, "a" from t;
set sql_mode=default;
create view vj as select * from json_table('[1,2]', '$[*]' columns (x int path '$')) jt;
create view vh as select t1.a from t t1 left join t t2 using (a) where t1.b = _latin1'é' or t1.b='\\' or t1.b = '"';"#,
    ),
    (
        "triggers",
        r"create table t (a int, b int);
create table l (x text);
create trigger z1 before insert on t for each row set new.b=1;
create trigger a1 before insert on t for each row follows z1 set new.b=new.b+1;
create trigger m1 before insert on t for each row precedes a1 set new.b=new.b*10;
create trigger bu before update on t for each row begin end;
create trigger au after update on t for each row insert into l values ('au');
create trigger bd before delete on t for each row insert into l values (old.a);
create trigger ad after delete on t for each row insert into l values ('ad');
create trigger ai after insert on t for each row insert into l values ('ai');
set sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES';
create trigger an after insert on t for each row follows ai insert into l values ('\');
set sql_mode=default;
insert into t values (1,5);",
    ),
    (
        "events",
        r"set time_zone='+02:00';
create event e1 on schedule every '1:30' hour_minute starts '2031-01-01 00:00:00' ends '2032-01-01 00:00:00' on completion preserve disable on slave comment 'ev''ent' do select 1;
create event e2 on schedule at '2035-05-05 05:05:05' do select 2;
create event e3 on schedule at '2001-01-01 00:00:00' on completion preserve disable do select 3;
set timestamp=unix_timestamp('2000-01-01');
create event e4 on schedule at '2001-01-01 00:00:00' do select 4;
create event e5 on schedule every 1 month starts '2000-02-01' ends '2001-01-01' do select 5;
set timestamp=default;
set time_zone='SYSTEM';
create event e6 on schedule every 1 quarter do select 6;
create event e7 on schedule every 10 second starts '2030-01-01 00:00:00.5' disable do select 7;
set time_zone=default;",
    ),
    (
        "invisible",
        r"create table t (a int, b int invisible, c int as (a) invisible, index (b)) ;
insert into t (a,b) values (1,2);
create table one (a int invisible default 5, b int);
insert into one(b) values (1);
create table autoinc (id int auto_increment primary key, x int) auto_increment=1000;
insert into autoinc(x) values (1);
delete from autoinc;
create table ai0 (id int auto_increment primary key);
set sql_mode='NO_AUTO_VALUE_ON_ZERO';
insert into ai0 values (0),(-5);
set sql_mode=default;
create table bigai (id bigint unsigned auto_increment primary key);
insert into bigai values (18446744073709551614);",
    ),
    (
        "collations",
        r"create table t (a varchar(10) collate utf8mb4_uca1400_as_cs, b varchar(10) collate uca1400_turkish_ai_ci, c char(10) character set latin1 collate latin1_nopad_bin, d varchar(5) character set utf8mb3, e text character set utf32 collate utf32_bin, f national varchar(10), g varchar(10) character set binary, h varchar(10) byte, key (a), unique (b)) default charset=utf8mb4 collate utf8mb4_croatian_ci;
insert into t(a,b,c,d,e,f,g,h) values ('ä','İ','x ','y','z','w',x'ff',x'fe');
alter database collations character set utf16 collate utf16_bin;",
    ),
    (
        "keys",
        r"create table p (a int, b int, primary key (a,b), unique key (b,a));
create table c (x int, y int, constraint `f``k` foreign key `ix name` (x,y) references p (a,b) on delete set null on update cascade, foreign key (y,x) references p (b,a) on delete restrict on update no action);
create table selfr (id int primary key, par int, foreign key (par) references selfr(id));
insert into selfr values (1,1);
insert into p values (1,2);
insert into c values (1,2);
create table other (id int primary key, k int, foreign key (k) references views.t (a));
set foreign_key_checks=0;
create table dangling (a int, foreign key (a) references notthere (id));
insert into dangling values (5);
set foreign_key_checks=1;",
    ),
    (
        "shapes",
        r"create table g (a geometry ref_system_id=4326, p point, pol polygon, mp multipoint, gc geometrycollection not null, spatial key (gc)) engine=innodb;
insert into g values (st_geomfromtext('point(1 2)',4326), point(1,2), st_geomfromtext('polygon((0 0,1 0,1 1,0 0))'), st_geomfromtext('multipoint(1 1,2 2)'), st_geomfromtext('geometrycollection(point(1 1),linestring(0 0,1 1))'));",
    ),
    (
        "dates",
        r"set sql_mode='ALLOW_INVALID_DATES';
create table d (id int primary key, a date not null, b datetime, t timestamp null, key (a), key(b), c text, fulltext(c), g date as (a) stored, v date as (b) virtual, key (v));
insert into d (id,a,b,t,c) values (1,'2026-02-31','2026-04-31 10:00:00','0000-00-00 00:00:00','x'),(2,'0000-00-00','0000-00-00 00:00:00',null,'y'),(3,'2026-00-00','2026-01-00',null,'z');
set sql_mode='';
create table pd (a date not null, key(a)) partition by hash(year(a)) partitions 2;
insert into pd values ('0000-00-00'),('2020-01-01');",
    ),
    (
        "statistics",
        r"create table t (a int, b varchar(10), key (a));
insert into t select seq, seq from seq_1_to_100;
set histogram_size=50;
analyze table t persistent for all;",
    ),
    (
        "enumerations",
        r"set sql_mode='';
create table t (id int primary key, e enum('a','') not null, f enum('a'), s set('a','b'));
insert into t values (1,'zzz','zzz','a,zzz'),(2,'',null,''),(3,0,0,0),(4,2,1,3);",
    ),
    (
        "numbered",
        r"create sequence s;
create table t (id int primary key default nextval(s), b int default (lastval(s)), key(b));
insert into t(b) values (1);
create table u (id int default (nextval(s) + 5), x int);",
    ),
    (
        "checks",
        r"create table t (a int, constraint viol check (a > 0));
set check_constraint_checks=0;
insert into t values (-5);
create table nn (a int not null, b varchar(3));
create table col (a int check (a between 1 and 5) , b int check (b<3));",
    ),
    (
        "comments",
        r"create table t (a int comment 'line1\nline2 \\ */ /*!50000 drop */ -- x `y`', `/*!50000 x*/` int, `*/` int, `--` int, `@seawall_0` int, `a.b` int, `#` int) comment='*/ /*M! x */ ;';
insert into t values (1,2,3,4,5,6,7);",
    ),
];
