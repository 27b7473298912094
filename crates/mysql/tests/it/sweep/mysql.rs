//! MySQL's catalog: databases in which each object sets something to another value than the default.

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
        "keys",
        r"create table p (a int, b int, primary key (a,b), unique key (b,a));
create table c (x int, y int, constraint `f``k` foreign key `ix name` (x,y) references p (a,b) on delete set null on update cascade, foreign key (y,x) references p (b,a) on delete restrict on update no action);
create table selfr (id int primary key, par int, foreign key (par) references selfr(id));
insert into selfr values (1,1);
insert into p values (1,2);
insert into c values (1,2);
set foreign_key_checks=0;
create table dangling (a int, foreign key (a) references notthere (id));
insert into dangling values (5);
set foreign_key_checks=1;",
    ),
    (
        "enumerations",
        r"set sql_mode='';
create table t (id int primary key, e enum('a','') not null, f enum('a'), s set('a','b'));
insert into t values (1,'zzz','zzz','a,zzz'),(2,'',null,''),(3,0,0,0),(4,2,1,3);",
    ),
    (
        "comments",
        r"create table t (a int comment 'line1\nline2 \\ */ /*!50000 drop */ -- x `y`', `/*!50000 x*/` int, `*/` int, `--` int, `@seawall_0` int, `a.b` int, `#` int) comment='*/ /*M! x */ ;';
insert into t values (1,2,3,4,5,6,7);",
    ),
    (
        "engines",
        r#"CREATE TABLE t (a int auto_increment, b int, c varchar(20), primary key (b, a), key (c) , fulltext(c)) engine=myisam row_format=fixed pack_keys=1 checksum=1 delay_key_write=1 min_rows=5 max_rows=1000 avg_row_length=50 stats_sample_pages=10 comment='x';
insert into t(b,c) values (1,'a'),(1,'b'),(2,'c');
CREATE TABLE g (p point not null, spatial key (p)) engine=myisam;
insert into g values (point(1,2));
CREATE TABLE hk (a int, key using btree(a) ) engine=memory;
insert into hk values (1);create table cs (a int not null, b varchar(20) not null) engine=csv;
insert into cs values (1,'x,"y'),(2,'');
create table bh (a int) engine=blackhole;
create table m1 (a int) engine=myisam;
create table m2 like m1;
create table mm (a int) engine=merge union=(m1,m2) insert_method=first;insert into mm values (1);CREATE TABLE ar (id int auto_increment primary key, x text) engine=archive;
insert into ar(x) values ('q'),('r');"#,
    ),
    (
        "defaults",
        r"CREATE TABLE t (id int primary key, a int default (1+2*3), b varchar(40) default (uuid()), c timestamp(3) default current_timestamp(3) on update current_timestamp(3), d date default (curdate()), e datetime default (now() + interval 1 day), g text default ('some ''text'), h blob default (x'00ff'), i json default (json_array()), j int default (a + 1), n int as (a * 2) stored, o bigint as (id) virtual unique, ts timestamp null default '2020-01-01 10:00:00', bi binary(3) default 'ab', vb varbinary(5) default x'ff00', bb bit(5) default b'101', key fx ((a+1), (lower(b)) desc), unique key uf ((cast(i->'$[0]' as unsigned))));
insert into t (id) values (1),(2);",
    ),
    (
        "partitions",
        r"CREATE TABLE r (a int, b varchar(20), primary key(a)) partition by range (a) (partition p0 values less than (10) comment='c1' , partition p1 values less than (20) max_rows=100, partition pm values less than maxvalue);
CREATE TABLE rc (a int, b date) partition by range columns (a,b) (partition p0 values less than (1,'2020-01-01'), partition p1 values less than (maxvalue,maxvalue));
create table l (a int) partition by list (a) (partition p0 values in (1,2,null), partition p1 values in (77));
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
        "indexes",
        r"create table t (a text, b blob, c varchar(500), id int primary key, key (a(10)), unique key ub (b(20)), fulltext key (c) with parser ngram, key desc_ (c(5) desc, id), key ign (id, c(3)) comment 'it''s' invisible) engine=innodb;
insert into t values ('x','y','z zz zzzz',1);
create table ft (FTS_DOC_ID bigint unsigned not null auto_increment primary key, x text, fulltext (x));
insert into ft(x) values ('hello world');",
    ),
    (
        "shapes",
        r"create table g (a geometry srid 4326, p point, pol polygon srid 0 not null, mp multipoint, gc geometrycollection not null srid 4326, spatial key (gc), spatial key (pol)) engine=innodb;
insert into g values (st_geomfromtext('point(1 2)',4326), point(1,2), st_geomfromtext('polygon((0 0,1 0,1 1,0 0))'), st_geomfromtext('multipoint(1 1,2 2)'), st_geomfromtext('geometrycollection(point(1 1),linestring(0 0,1 1))',4326));",
    ),
    (
        "json",
        r#"create table j (id int primary key, j json);
insert into j values (1, cast(date'2020-01-01' as json)), (2, json_object('d', cast('2020-01-01 10:00:00' as datetime), 'bin', cast(x'ff00' as binary))), (3, cast(18446744073709551615 as json)), (4, '1e0'), (5, '"\\u0000\\t😀"'), (6,'-0.0'),(7,'1.0');"#,
    ),
    (
        "collations",
        r"create table t (a varchar(10) collate utf8mb4_0900_as_cs, b varchar(10) collate utf8mb4_ja_0900_as_cs_ks, c char(10) character set latin1 collate latin1_bin, d varchar(5) character set utf8, e text character set utf32 collate utf32_bin, f national varchar(10), g varchar(10) character set binary, h varchar(10) byte, i varchar(9) character set gb18030, k enum('ä') character set ucs2, key (a), unique (b)) default charset=utf8mb4 collate utf8mb4_croatian_ci;
insert into t(a,b,c,d,e,f,g,h,i,k) values ('ä','İ','x ','y','z','w',x'ff',x'fe','中','ä');
alter database collations character set utf16 collate utf16_bin;",
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
create view vcte as with recursive q as (select 1 as n union all select n+1 from q where n<5) select * from q;
create view vw as select a, row_number() over (order by a) r from t;
set sql_mode='PIPES_AS_CONCAT,ANSI_QUOTES';
create view vp as select b || 'x' as c, "a" from t;
set sql_mode=default;
create view vj as select * from json_table('[1,2]', '$[*]' columns (x int path '$')) jt;
create view vh as select t1.a from t t1 left join t t2 using (a) where t1.b = _latin1'é' or t1.b='\\' or t1.b = '"';"#,
    ),
    (
        "routines",
        r"delimiter //
create procedure p1(inout a varchar(10) character set latin1 collate latin1_bin, out b enum('x','y')) sql security invoker modifies sql data comment 'cö''m' begin /* a comment */ -- another
 # hash
 select 'x;' ; end//
create function `we``ird (name)` (`p 1` int) returns varchar(10) character set utf8mb4 collate utf8mb4_bin not deterministic no sql return 'ä'//
create procedure noargs() begin end//
create function shown2() returns int deterministic return 3//
create function shown() returns int deterministic return shown2()//
create function uses() returns int reads sql data return (select count(*) from t)//
create table t (a int)//
create view v as select uses() as u, (select shown()) as w//
create procedure usesdb() select * from routines.t//
delimiter ;",
    ),
    (
        "events",
        r"set time_zone='+02:00';
create event e1 on schedule every '1:30' hour_minute starts '2031-01-01 00:00:00' ends '2032-01-01 00:00:00' on completion preserve disable on slave comment 'ev''ent' do select 1;
create event e2 on schedule at '2035-05-05 05:05:05' do select 2;
create event e3 on schedule at '2001-01-01 00:00:00' on completion preserve disable do select 3;
set time_zone='SYSTEM';
create event e6 on schedule every 1 quarter do select 6;
create event e7 on schedule every 10 second starts '2030-01-01 00:00:00.5' disable do select 7;
set time_zone=default;",
    ),
    (
        "invisible",
        r"create table t (a int, b int as (a) stored, key ik (a) invisible);
insert into t(a) values (1);
create table autoinc (id int auto_increment primary key, x int) auto_increment=1000;
insert into autoinc(x) values (1);
delete from autoinc;
create table ai0 (id int auto_increment primary key);
set sql_mode='NO_AUTO_VALUE_ON_ZERO';
insert into ai0 values (0),(-5);
set sql_mode=default;
create table bigai (id bigint unsigned auto_increment primary key);
insert into bigai values (18446744073709551614);create table aik (a int, id int auto_increment, key(id));
insert into aik(a) values (1);",
    ),
    (
        "dates",
        r"set sql_mode='ALLOW_INVALID_DATES';
create table d (id int primary key, a date not null, b datetime, t timestamp null, key (a), key(b), c text, fulltext(c), g date as (a) stored, v date as (b) virtual, key (v), key ((year(a))));
insert into d (id,a,b,t,c) values (1,'2026-02-31','2026-04-31 10:00:00','0000-00-00 00:00:00','x'),(2,'0000-00-00','0000-00-00 00:00:00',null,'y'),(3,'2026-00-00','2026-01-00',null,'z');
set sql_mode='';
create table pd (a date not null, key(a)) partition by hash(year(a)) partitions 2;
insert into pd values ('0000-00-00'),('2020-01-01');",
    ),
    (
        "histograms",
        r"create table t (a int, b varchar(10), key (a));
insert into t values (1,'x'),(2,'y'),(3,'z');
analyze table t update histogram on a with 12 buckets;
analyze table t update histogram on b;",
    ),
    (
        "spaces",
        r"create tablespace ts1 add datafile 'ts1.ibd' engine=innodb;
create table t (a int primary key) tablespace ts1;
insert into t values (1);
create table p (a int) partition by hash(a) partitions 2;",
    ),
    (
        "options",
        r"create table c (a int primary key, b text) compression='zlib';
insert into c values (1,'x');
create table st (a int primary key) stats_persistent=1 stats_auto_recalc=0 stats_sample_pages=33;
CREATE TABLE red (a int primary key, b varchar(300)) row_format=redundant;
create table kb (a int primary key) row_format=compressed key_block_size=2;",
    ),
];
